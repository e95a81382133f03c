"""A series in the shorthand of promtool's unit tests: ``0x30 5+0x10 _x5 stale``.

``a+bxn`` is a and n more, each b above the one before; ``a-bxn`` goes down; ``axn`` is a, n + 1
times; ``_`` and ``stale`` are samples that are not there, ``_xn`` n of them.
Source: prometheus.io, unit testing for rules, <series>.
"""

from __future__ import annotations

import re

#: What a series shows at each interval; None: nothing that could be believed.
Values = tuple[float | None, ...]

_SIZE = r"(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|NaN|Inf)"
_ITEM = re.compile(
    rf"(?P<first>[-+]?{_SIZE})(?:(?P<step>[-+]{_SIZE})?x(?P<more>\d+))?|_(?:x(?P<gaps>\d+))?|stale",
    re.ASCII | re.IGNORECASE,
)
#: Ten weeks of minutes; with more, a digit was written too much.
_LONGEST = 100_000


def parse_values(text: object) -> Values:
    """The values of a series in shorthand. Raises ValueError."""
    if not isinstance(text, str):
        hint = "write it in quotes, such as '0x30', which without them is a number to YAML"
        raise ValueError(f"{text!r} is no series; {hint}")  # noqa: TRY004 - told as a value
    found: list[float | None] = []
    for word in text.split():
        item = _ITEM.fullmatch(word)
        if item is None:
            raise ValueError(
                f"{word!r} in the series {text!r} is none of a, axn, a+bxn, a-bxn, _, _xn and "
                "stale; '0x30 5x10' is 31 times 0 and 11 times 5"
            )
        count = int(item["more"] or 0) + 1 if item["first"] else int(item["gaps"] or 1)
        if len(found) + count > _LONGEST:
            raise ValueError(f"the series {text!r} has more than {_LONGEST} samples")
        found += _expanded(item, count)
    if not found:
        raise ValueError("a series is empty; write its samples, such as '0x30 5x10'")
    return tuple(found)


def _expanded(item: re.Match[str], count: int) -> list[float | None]:
    if item["first"] is None:
        return [None] * count
    first, step = float(item["first"]), float(item["step"] or 0)
    return [first + step * number if number else first for number in range(count)]


def format_values(values: Values) -> str:
    """A series that is read as these values."""
    return " ".join("_" if value is None else repr(value) for value in values)
