"""What ``idlewin plane render`` writes of a homelab: the text, word by word.

After a change that is meant: ``pytest tests/golden --update-golden``, and look at the difference.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "plane-homelab"
SCRIPT = "from idlewin.cli.app import main; main()"


def idlewin(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_homelab_comes_out_as_it_did(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = GOLDEN if request.config.getoption("--update-golden") else tmp_path
    done = idlewin("plane", "render", "rules/homelab.plane.yaml", "--out", str(out))

    assert (done.returncode, done.stderr.count("warning")) == (0, 0), done.stderr
    found = {path.name: path.read_text() for path in out.iterdir()}
    assert found == {path.name: path.read_text() for path in GOLDEN.iterdir()}


def test_its_rules_are_taken_by_check() -> None:
    done = idlewin("check", str(GOLDEN / "idlerules.yaml"))

    assert (done.returncode, done.stdout.count(": ok")) == (0, 2), done.stdout
    assert "warning" not in done.stdout
