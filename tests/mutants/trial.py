"""One trial, in a process whose idlewin is the copy: do these seeds and tests notice an edit?

Run by __main__.py, with the copy first on the path. The last line of its output is the verdict.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import idlewin
from tests.mutants.mutants import ROOT
from tests.simulation.swarm import play

# A law that fails has noticed: the shortest example of it is asked for by nobody here.
settings.register_profile(
    "mutants", phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
)
settings.load_profile("mutants")
CAUGHT, SURVIVED, SEED = "caught by ", "survived", "seed "


def trial(killers: Sequence[str]) -> str:
    """The first that notices, and what it says: tests before seeds, for they cost less."""
    if (tests := [killer for killer in killers if not killer.startswith(SEED)]) and (
        said := _tests(tests)
    ):
        return said
    for killer in killers:
        if killer.startswith(SEED) and (said := play(int(killer.removeprefix(SEED))).failure):
            return f"{CAUGHT}{killer}: {' '.join(said.split())}"
    return SURVIVED


class _Failures:
    """What failed first, as pytest tells its plugins."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first:
            said = getattr(report.longrepr, "reprcrash", None)
            self.first = f"{report.nodeid.split('[')[0]}: {said.message if said else 'it fails'}"


def _tests(tests: list[str]) -> str:
    # The tests' own path would put the tree before the copy.
    asked = ["-q", "-x", "-o", "pythonpath=", "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    asked += ["--hypothesis-seed=0", *(str(ROOT / test) for test in tests)]
    failures, told = _Failures(), StringIO()
    with redirect_stdout(told):
        code = pytest.main(asked, plugins=[failures])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"{tests} did not run:\n{told.getvalue()}")
    return f"{CAUGHT}{' '.join(failures.first.split())}" if failures.first else ""


if __name__ == "__main__":
    here = Path(idlewin.__file__).parents[1]
    assert here == Path(sys.argv[1]), f"idlewin is that of {here}, not the copy"
    print(trial(sys.argv[2:]))
