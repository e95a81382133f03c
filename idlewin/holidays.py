"""Holidays: the public ones of a country or a region, by its code; the one importer of holidays.

What a forecast takes for days of rest. A code that nobody knows has none and raises nothing, so
that a rule with one can still be followed; ``problem`` says what is wrong with it.
"""

from __future__ import annotations

from datetime import date

import holidays
from holidays.registry import COUNTRIES, EntityLoader

from idlewin.core.window import Span
from idlewin.wording import nearest


def dates(code: str | None, over: Span) -> tuple[date, ...]:
    """The holidays of each year that a stretch touches, and of those beside it, in order."""
    if code is None or problem(code):
        return ()
    country, _, region = code.partition("-")
    # A local day, and the day that is forecast, may lie in the next year.
    years = range(over.start.year - 1, over.end.year + 2)
    return tuple(sorted(holidays.country_holidays(country, subdiv=region or None, years=years)))


def problem(code: str) -> str | None:
    """Why a code is none, and what would be right; None: its holidays are known."""
    country, dash, region = code.partition("-")
    if country not in EntityLoader.get_country_codes():
        return f"no country {country!r} has known holidays{_instead(code)}"
    regions = holidays.country_holidays(country).subdivisions
    if dash and region not in regions:
        known = nearest(region, regions) if regions else f"; write {country!r}"
        return f"{country} has no region {region!r}{known}"
    return None


def _instead(code: str) -> str:
    """What may be meant: the same in capitals, or a country that was called by its name."""
    if code.upper().partition("-")[0] in EntityLoader.get_country_codes():
        return f"; did you mean {code.upper()!r}?"
    names = {module.replace("_", " "): entry[1] for module, entry in COUNTRIES.items()}
    told = nearest(code.replace("_", " "), names)
    meant = (known for name, known in names.items() if told == f"; did you mean {name!r}?")
    close = next(meant, None)
    return f"; did you mean {close!r}?" if close else "; write one such as AT or DE-BY"
