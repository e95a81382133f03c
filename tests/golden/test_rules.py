"""The rules of the examples: each has its test, and each test comes out as it says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from idlewin.core.text import camel
from idlewin.rulefile import BESIDE, read_files
from idlewin.ruletest.written import Check, Event, Expect, Past, RuleTest, Written

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"
#: Who contends for the cards of one cluster, and who wants one besides.
CONTENTION = {"llama-swap", "qwen3-8b-b580", "jellyfin", "qwen3-embed"}
OTHERS = {"whisper-asr", "immich-machine-learning", "nsfw-detector"}


def idlewin(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "idlewin.cli.app", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_rule_has_a_test_beside_it() -> None:
    files = {path.stem for path in RULES.glob("*.yaml")}
    tested = {name.removesuffix(".test") for name in files if name.endswith(".test")}

    assert {name for name in files if not name.endswith(BESIDE)} == tested


def test_every_pod_of_the_contention_has_an_example() -> None:
    documents = read_files([RULES]).documents
    named = {s.name for document in documents if document.rule for s in document.rule.serving}

    assert named >= CONTENTION | OTHERS


def test_the_rules_agree_with_each_other() -> None:
    done = idlewin("check", "rules/")

    assert (done.returncode, done.stdout.count("error"), done.stdout.count("warning")) == (0, 0, 0)


def test_their_tests_come_out_as_they_say() -> None:
    done = idlewin("test", "rules/")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all as expected\n")


def test_the_page_says_each_field() -> None:
    page = (ROOT / "docs/rule-tests.md").read_text()
    kinds = (Written, RuleTest, Past, Event, Check, Expect)
    wanted = {camel(part.name) for kind in kinds for part in fields(kind)}

    assert {name for name in wanted if f"\n| `{name}` | " not in page} == set()


def test_the_example_of_the_page_comes_out_as_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/rule-tests.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "b580.test.yaml"
    path.write_text(f"rule: {RULES / 'b580.yaml'}\n{example}")

    done = idlewin("test", str(path))

    assert done.returncode == 0, done.stdout + done.stderr
