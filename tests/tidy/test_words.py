"""Reasons explain themselves, and no file names the machine that it was written on."""

from __future__ import annotations

import re
from pathlib import Path

from idlewin.core.reason import Reason
from tests.tidy.source import ROOT, tracked

DOCS = ROOT / "docs"
#: Other words for what docs/glossary.md has one for.
NOT_OURS = re.compile(r"\bshut\b|claims? (?:its|no) cards?", re.IGNORECASE)
#: Paths of a developer's machine: they hold nowhere else.
MACHINE = re.compile(r"(?<![\w.$}])/(?:work/(?:main|shared)|root|tmp/labs|home/\w+|Users/\w+)\b")
#: What a lock file has to name: where packages come from.
LOCKS = {"uv.lock", "go.sum"}


def test_every_reason_is_explained_by_a_sentence_of_its_own() -> None:
    sentences = [reason.meaning for reason in Reason]

    assert [s for s in sentences if not re.fullmatch(r"[A-Za-z`].{10,}\.", s)] == []
    assert len(set(sentences)) == len(sentences)


def test_every_reason_is_spelled_as_its_name() -> None:
    assert [r for r in Reason if r.value.lower() != r.name.replace("_", "").lower()] == []


def test_the_pages_and_reasons_use_the_words_of_the_glossary() -> None:
    pages = {path.name: path.read_text() for path in [ROOT / "README.md", *DOCS.glob("*.md")]}
    # Reports are told in the words of those who made them.
    del pages["reports.md"]
    told = {**pages, **{reason: reason.meaning for reason in Reason}}

    assert {
        name: NOT_OURS.findall(text) for name, text in told.items() if NOT_OURS.search(text)
    } == {}


def test_every_page_is_to_be_found_from_the_first() -> None:
    readme = (ROOT / "README.md").read_text()

    assert [page.name for page in DOCS.glob("*.md") if f"(docs/{page.name})" not in readme] == []


def test_no_file_names_a_machine() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked()
        if path.name not in LOCKS and path != Path(__file__)
        for found in [MACHINE.search(_text(path))]
        if found
    ]

    assert wrong == []


def _text(path: Path) -> str:
    """What is in a file; nothing where it is no text."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""
