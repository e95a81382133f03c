"""Writes the generated parts of the documentation: ``python -m tests.docs``."""

from __future__ import annotations

import re
from pathlib import Path

from idlewin.core import diagram
from tests.contract.kueue import fact

DOCS = Path(__file__).resolve().parents[1] / "docs"
MACHINE = {
    "diagram": lambda: f"```mermaid\n{diagram.mermaid()}\n```",
    "wanted": diagram.wanted_table,
    "transitions": diagram.transition_table,
    "staying": diagram.staying_table,
}
PAGES = {DOCS / "machine.md": MACHINE, DOCS / "kueue.md": {"facts": fact.table}}


def generated(page: Path) -> str:
    """A page with its generated parts made anew."""
    text = page.read_text()
    for name, make in PAGES[page].items():
        text, found = re.subn(
            rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)",
            lambda part, make=make: f"{part[1]}{make()}\n{part[2]}",
            text,
            flags=re.DOTALL,
        )
        assert found == 1, f"{name} has no place on the page"
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(generated(page))
