"""How verbs answer: one way to write JSON and YAML, and nothing beside the answer on its stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from idlewin.cli.app import VERBS, load, main
from idlewin.cli.output import Form, aside, written

RULE = Path(__file__).parents[2] / "rules/b580.yaml"
#: The verbs that answer with a list or a state, and say it for machines too.
LISTING = ("audit", "check", "doctor", "explain", "sources", "status")


def forms(verb: str) -> set[str]:
    option = next(one for one in load(verb).params if "--output" in one.opts)
    return {str(one) for one in type(option.default)}


@pytest.mark.parametrize("verb", LISTING)
def test_each_verb_that_lists_or_tells_has_json_and_yaml(verb):
    assert {"json", "yaml"} <= forms(verb)


def test_no_verb_that_has_json_is_left_out_here():
    has = {v for v in VERBS if any("--output" in one.opts for one in load(v).params)}

    assert has - {"test"} == set(LISTING), "that of a test run is a report: junit"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code in (0, None)
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize(
    "command", [("sources",), ("sources", "vllm-requests"), ("check", str(RULE))]
)
def test_yaml_says_what_json_says(command, capsys):
    as_json = json.loads(said(capsys, *command, "-o", "json"))

    assert yaml.safe_load(said(capsys, *command, "-o", "yaml")) == as_json


def test_strings_of_other_types_are_plain_in_yaml():
    assert yaml.safe_load(written([{"severity": Form.JSON}], "yaml")) == [{"severity": "json"}]


@pytest.mark.parametrize("verb", [("sources",), ("check", str(RULE)), ("replay", "--help")])
def test_nothing_is_coloured_in_a_pipe_whatever_the_terminal_is(verb):
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    done = subprocess.run(
        [sys.executable, "-m", "idlewin.cli.app", *verb],
        env=env,
        capture_output=True,
        check=True,
    )

    assert b"\x1b" not in done.stdout + done.stderr


def test_how_far_the_work_is_goes_to_standard_error(capsys):
    aside().print("7 of 9")

    assert capsys.readouterr() == ("", "7 of 9\n")


def test_no_color_takes_the_colours_from_a_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert aside().no_color


def test_an_error_goes_to_standard_error_and_the_answer_stays_empty(capsys):
    with pytest.raises(SystemExit) as end:
        main(["check", "not-there.yaml", "-o", "json"])

    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert "not-there.yaml is not there" in err
