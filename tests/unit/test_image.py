"""The Containerfile's steps without a container: what it copies and runs, in its own folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Containerfile").read_text().replace("\\\n", " ").splitlines()
DEPLOYMENT = yaml.safe_load((ROOT / "deploy/base/deployment.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]


def having(word: str) -> list[str]:
    return [line.removeprefix(f"{word} ") for line in LINES if line.startswith(f"{word} ")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage leaves in /opt/idlewin, from nothing but what it copies."""
    folder = tmp_path_factory.mktemp("image")
    for line in having("COPY"):
        if line.startswith("--from"):
            continue
        *sources, target = line.split()
        into = folder / target.lstrip("/")
        for source in sources:
            if (ROOT / source).is_dir():
                left = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, into, ignore=left)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, into)
    script, target = next(line for line in having("RUN") if "image.sh" in line).split()
    opt = folder / target.lstrip("/")
    # uv's cache has all of it since setup.
    own = {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH"}
    env = {name: text for name, text in os.environ.items() if name not in own}
    env |= {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}", "UV_OFFLINE": "1"}
    done = subprocess.run(
        [folder / script.lstrip("/"), opt],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return opt


def idlewin(built: Path, *arguments: str) -> str:
    command = [built / "bin/idlewin", *arguments]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_image_has_all_that_the_controller_needs_and_nothing_of_the_tests(built: Path) -> None:
    assert idlewin(built, "--version").startswith("idlewin ")
    assert "b580" in idlewin(built, "check", str(ROOT / "rules"), "-o", "json")
    idlewin(built, "run", "--help")
    installed = built.glob("lib/python*/site-packages/*.dist-info")
    have = {path.name.partition("-")[0] for path in installed}
    assert "lightgbm" in have
    assert not have & {"pytest", "mypy", "ruff", "hypothesis"}


def test_the_package_is_in_it_and_not_a_link_to_its_sources(built: Path) -> None:
    where = subprocess.check_output(
        [built / "bin/python", "-c", "import idlewin; print(idlewin.__file__)"], text=True, cwd="/"
    )

    assert Path(where.strip()).is_relative_to(built)


def test_user_and_command_are_those_of_the_deployment() -> None:
    context = POD["securityContext"]

    assert having("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert POD["containers"][0]["command"] == ["idlewin"]


def test_it_takes_the_uv_of_the_makefile() -> None:
    ours = re.search(r"UV_VERSION := (\S+)", (ROOT / "Makefile").read_text())

    assert ours is not None
    assert f"pip install --no-cache-dir uv=={ours[1]}" in having("RUN")


def test_the_python_of_the_image_is_one_that_idlewin_takes() -> None:
    named = {re.search(r"python:3\.(\d+)", line)[1] for line in having("FROM")}  # type: ignore[index]

    assert len(named) == 1
    assert int(named.pop()) >= 11
    assert sys.version_info >= (3, 11)
