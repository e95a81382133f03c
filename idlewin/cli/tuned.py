"""What ``tune`` tells of its runs: a table, a picture, figures, and the change to the rule file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from idlewin.errors import UsageError
from idlewin.picture import PictureError
from idlewin.picture.front import Dot, draw
from idlewin.replay import WEEK, Case
from idlewin.ruleedit import EditError, edited
from idlewin.rulefile import read_text
from idlewin.tune import Tried, changes

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of all runs."""

    cases: list[Case]
    fields: list[str]
    all: list[Tried]
    """The rule as it is comes first."""
    front: list[Tried]
    allowed: float
    """Late returns, by the rule's budget."""
    suggested: Tried | None
    """None: no point kept the budget."""

    @property
    def now(self) -> Tried:
        """The rule as it is."""
        return self.all[0]

    @property
    def weeks(self) -> float:
        """Card-weeks that are judged."""
        return sum(case.judged.length / WEEK for case in self.cases)

    def number(self, one: Tried) -> int | None:
        """A point's number on the front."""
        return self.front.index(one) + 1 if one in self.front else None


def table(found: Found) -> Table:
    """The front, and the rule as it is."""
    made = Table(
        title=f"Points of which none is better in all; {_card_weeks(found)} judged",
        caption=f"%: of the oracle's. {_star(found)} now: the rule as it is. One late return more "
        "or less may be chance.",
        title_justify="left",
        caption_justify="left",
    )
    made.add_column("", no_wrap=True)
    for field in found.fields:
        made.add_column(field.rpartition(".")[2], no_wrap=True)
    for name in ("harvested", "late", "a week", "handovers"):
        made.add_column(name, justify="right")
    for one in found.front if found.now in found.front else [*found.front, found.now]:
        score = one.score
        made.add_row(
            _name(found, one),
            *(one.point.values[field] for field in found.fields),
            f"{score.harvested / HOUR:.1f} h {score.share:>4.0%}",
            str(score.late_returns),
            f"{score.late_returns / found.weeks:.2g}",
            str(score.handovers),
        )
    return made


def _star(found: Found) -> str:
    if found.suggested is None:
        return "No point is within the rule's budget."
    return "*: most harvest within the rule's budget."


def _name(found: Found, one: Tried) -> str:
    number = found.number(one)
    marks = [str(number)] if number else []
    marks += ["*"] if one is found.suggested else []
    marks += ["now"] if one is found.now else []
    return " ".join(marks)


def _card_weeks(found: Found) -> str:
    weeks = f"{found.weeks:.3g}"
    return f"{weeks} card-week" if weeks == "1" else f"{weeks} card-weeks"


def verdict(found: Found, chosen: Tried) -> str:
    """What a chosen point would change, in words."""
    number = found.number(chosen)
    budget = f"the rule's budget allows {found.allowed:.3g} in {_card_weeks(found)}"
    if found.suggested is None:
        budget += ", and every point was late more often"
        if chosen.point.rule.calendar_only:
            budget += " (CalendarOnly lends by its hours alone and looks at no budget)"
    if not chosen.point.differs:
        if found.suggested is None:
            return f"Nothing to suggest: {budget}. --pick NUMBER takes a point all the same."
        return f"Point {number} is the rule as it is: nothing to change."
    new, old = chosen.score, found.now.score
    return (
        f"Point {number}: {new.harvested / HOUR:.1f} h harvested instead of "
        f"{old.harvested / HOUR:.1f} h, {new.late_returns} late instead of {old.late_returns}, "
        f"{new.handovers} handovers instead of {old.handovers}; {budget}."
    )


def told(found: Found) -> dict[str, Any]:
    """All points for ``--json``: hours and counts over the judged part of all cards."""
    return {
        "cards": [
            {
                "card": case.card,
                "from": case.judged.start.isoformat(),
                "to": case.judged.end.isoformat(),
            }
            for case in found.cases
        ],
        "card_weeks": round(found.weeks, 3),
        "late_returns_allowed": round(found.allowed, 3),
        "points": [
            {
                "number": found.number(one),
                "now": one is found.now,
                "suggested": one is found.suggested,
                "values": dict(one.point.values),
                "harvested_hours": round(one.score.harvested / HOUR, 3),
                "share_of_oracle": round(one.score.share, 4),
                "windows": one.score.windows,
                "late_returns": one.score.late_returns,
                "handovers": one.score.handovers,
            }
            for one in found.all
        ],
    }


def drawn(path: Path | None, found: Found, name: str, console: Console) -> None:
    """The picture, where one is asked for."""
    if path is None:
        return
    weeks = found.weeks
    dots = [
        Dot(
            late=one.score.late_returns / weeks,
            harvested=one.score.harvested / HOUR / weeks,
            handovers=one.score.handovers / weeks,
            number=found.number(one),
            now=one is found.now,
            suggested=one is found.suggested,
        )
        for one in found.all
    ]
    title = f"{name}: {len(found.all)} points over {_card_weeks(found)}"
    try:
        draw(dots, title, found.allowed / weeks, path)
    except PictureError as error:
        console.print(f"no picture: {error}")
        return
    console.print(f"picture of the points: {path}")


# -- the rule file


def texts(path: Path, chosen: Tried) -> tuple[str, str]:
    """The rule file as it is, and as a point would have it. Raises UsageError."""
    raw = path.read_bytes().decode()
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    try:
        after = mark + edited(raw.removeprefix(mark), changes(chosen.point))
    except EditError as error:
        raise _by_hand(path, chosen, str(error)) from None
    read = read_text(path, after.removeprefix(mark))
    if [document.rule for document in read.documents if document.rule] != [chosen.point.rule]:
        raise _by_hand(path, chosen, "it would not say what was replayed")
    return raw, after


def _by_hand(path: Path, chosen: Tried, why: str) -> UsageError:
    values = ", ".join(f"{field}: {chosen.point.values[field]}" for field in chosen.point.differs)
    return UsageError(f"{path} cannot be changed here ({why}); write into its spec {values}")


def diff(path: Path, before: str, after: str) -> str:
    """The change as ``patch -p0`` takes it; empty where there is none."""
    old, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    made = difflib.unified_diff(old, new, str(path), str(path))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made
    )
