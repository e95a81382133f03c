"""Writes the generated parts of the documentation: ``python -m tests.docs``."""

from __future__ import annotations

import re
from pathlib import Path

from idlewin.core import diagram

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "machine.md"
PARTS = {
    "diagram": lambda: f"```mermaid\n{diagram.mermaid()}\n```",
    "wanted": diagram.wanted_table,
    "transitions": diagram.transition_table,
    "staying": diagram.staying_table,
}


def generated(text: str) -> str:
    """The page with its generated parts made anew."""
    for name, make in PARTS.items():
        text, found = re.subn(
            rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)",
            lambda part, make=make: f"{part[1]}{make()}\n{part[2]}",
            text,
            flags=re.DOTALL,
        )
        assert found == 1, f"{name} has no place on the page"
    return text


if __name__ == "__main__":
    PAGE.write_text(generated(PAGE.read_text()))
