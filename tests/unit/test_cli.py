"""The command line as a person meets it: verbs, errors, exit codes, and how soon help is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from idlewin.cli import app
from idlewin.errors import Exit

ROOT = Path(__file__).parents[2]


def idlewin(*arguments, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "idlewin.cli.app", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def broken(tmp_path):
    """The example rule with a count that is no number."""
    text = (ROOT / "rules/b580.yaml").read_text()
    path = tmp_path / "broken.yaml"
    path.write_text(text.replace("count: 1\n", "count: one\n"))
    return path


def test_help_is_there_in_half_a_second_and_loads_no_verb():
    script = (
        "import sys\nfrom idlewin.cli.app import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pydantic', 'rich', 'numpy', 'kubernetes', 'pendulum', 'ruamel'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    # Processor time: it is what the command costs, whatever else the machine has to do.
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    after = os.times()

    assert done.stderr.strip() == "[]"
    assert "Exit codes:" in done.stdout
    assert after.children_user + after.children_system < (
        before.children_user + before.children_system + 0.5
    )


def test_help_lists_the_verbs_that_are_there():
    told = idlewin("--help").stdout

    for verb in app.VERBS:
        there = (ROOT / f"idlewin/cli/{verb.replace('-', '_')}.py").exists()
        assert (f"\n  {verb} " in told) is there


def test_a_verb_that_cannot_be_loaded_does_not_take_the_others_with_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "idlewin.cli.check", None)

    with pytest.raises(
        app.IdlewinError, match=r"check cannot be loaded: .*; install idlewin again"
    ):
        app.load("check")
    with pytest.raises(SystemExit) as end:
        app.main(["--help"])
    assert end.value.code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("chekc",), "No such command 'chekc'. Did you mean 'check'?"),
        (("check",), "Missing argument 'FILE'"),
        (("check", "-o", "xml", "rules"), "'xml' is not one of 'text', 'json'"),
        (("give-back",), "error: name one rule, or write --all, or --stale DURATION"),
        (("give-back", "r", "--stale", "15m"), "error: name one rule, or write --all, or --stale"),
        (("give-back", "r", "--all"), "or --stale DURATION; not both"),
        (("give-back", "--stale", "soon"), "error: --stale: 'soon' is not a duration"),
        (("run", "--tick", "15"), "error: --tick 15 has no unit; write 15s"),
        (("check", "no/such/path"), "error: no/such/path is not there; name a rule file or a"),
    ],
)
def test_a_command_that_is_not_understood_ends_with_2_and_says_why(arguments, told):
    done = idlewin(*arguments)

    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("verb", app.VERBS)
def test_the_help_of_a_verb_speaks_of_no_python(verb, capsys):
    with pytest.raises(SystemExit):
        app.main([verb, "--help"])

    told = capsys.readouterr().out
    words = ("<str", "<path", "<int", "<list", "<bool", " / --no-", "{paths}", "[rule]")
    assert [word for word in words if word in told] == []


def test_the_help_of_replay_says_what_a_replay_without_a_rule_needs():
    told = " ".join(idlewin("replay", "--help").stdout.split())
    assert "A rule file, with --trace or --prometheus (a directory, too); or --demo." in told


def test_the_version_is_told():
    done = idlewin("--version")

    assert done.returncode == 0
    assert done.stdout.startswith("idlewin 0.")


def test_rules_that_can_be_used_end_with_0_and_say_how_long_they_may_lend():
    done = idlewin("check", "rules")

    assert done.returncode == 0
    assert "rules/office.yaml:4: office: ok\n  may lend 13.4 h a day on average" in done.stdout
    assert "warning" not in done.stdout


@pytest.mark.parametrize(("page", "rules"), [("README.md", 1), ("docs/rule.md", 2)])
def test_the_rules_on_the_pages_are_whole(tmp_path, page, rules):
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    for number, block in enumerate(b for b in blocks if "kind: IdleRule" in b):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "rule.yaml").write_text(block)

    done = [idlewin("check", folder) for folder in sorted(tmp_path.iterdir())]

    assert [one.returncode for one in done] == [0] * rules
    assert not any("warning" in one.stdout for one in done)


def test_a_rule_that_cannot_be_used_ends_with_1_and_the_others_are_told_too(broken):
    done = idlewin("check", broken, "rules/office.yaml")

    assert done.returncode == 1
    assert f"{broken}:4: b580: 1 error" in done.stdout
    assert f"error: {broken}:17: spec.cards.count: 'one' is not a whole number" in done.stdout
    assert "office: ok" in done.stdout


def test_a_check_as_json_has_the_same_findings(broken):
    done = idlewin("check", broken, "-o", "json")

    (rule,) = json.loads(done.stdout)["rules"]
    errors = [finding for finding in rule["findings"] if not finding["warning"]]
    assert (rule["name"], rule["ok"], rule["hours"]) == ("b580", False, None)
    assert [(one["line"], one["field"]) for one in errors] == [(17, "spec.cards.count")]


def test_each_verb_and_each_exit_code_is_documented():
    text = (ROOT / "docs/cli.md").read_text()
    _, _, epilog = idlewin("--help").stdout.partition("Exit codes:")

    assert [verb for verb in app.VERBS if f"| `{verb}" not in text] == []
    assert [code.value for code in Exit if f"| {code.value} |" not in text] == []
    assert [code.value for code in Exit if f" {code.value} " not in epilog] == []


@pytest.mark.parametrize("named", [(), ("--pictures", "out")], ids=["default", "named"])
def test_a_folder_for_pictures_that_cannot_be_made_is_told_before_the_work(tmp_path, named):
    (tmp_path / "out").write_text("a file, not a folder")

    done = idlewin("replay", "--demo", *named, cwd=tmp_path)

    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("error: out cannot be made")
    assert not done.stdout


def test_no_verb_is_told_in_more_words_than_the_list_has_room_for():
    listed = idlewin("--help").stdout.partition("Commands:")[2].partition("Exit codes")[0]

    assert [text for line in listed.splitlines() if (text := line.strip()).endswith("...")] == []
