"""The page about the machine says what the machine does."""

from __future__ import annotations

from idlewin.core.phase import TRANSITIONS
from idlewin.core.reason import Reason
from tests.docs import DOCS, PAGES, generated


def test_the_pages_are_made_from_the_tables():
    for page in PAGES:
        assert page.read_text() == generated(page), "run: python -m tests.docs"


def test_every_reason_is_on_the_page():
    text = (DOCS / "machine.md").read_text()

    assert [reason for reason in Reason if f"`{reason}`" not in text] == []


def test_the_machine_fits_at_a_glance():
    pairs = {(row.source, row.target) for row in TRANSITIONS}

    assert len(pairs) <= 9
