"""Forecasters: how likely cards stay idle, from what was known before.

One file a method; ``fleet.py`` holds the past that they learn from, ``ahead.py`` what they are
asked. numpy and the core, and nothing else: no clock, no I/O, no state that a restart would lose.
The oracle knows the future, so it is in replay only, and no rule can name it.
"""

from __future__ import annotations

from importlib import import_module

from idlewin.core.rule import METHODS
from idlewin.forecasters import hazard
from idlewin.forecasters.ahead import Method
from idlewin.forecasters.change import Watched


def there(name: str) -> bool:
    """Whether all is installed that a method needs."""
    if name != "boosted":
        return True
    try:
        import_module("idlewin.forecasters.boosted")
    except (ImportError, OSError):  # the second where a library of the system is missing
        return False
    return True


def method(name: str) -> Method:
    """The way to learn of a name. Raises ValueError for an unknown one."""
    match name:
        case "elapsed":
            return Watched(hazard.Hazards(hours=False, name="elapsed"), hours=False)
        case "hazard":
            return Watched(hazard.Hazards())
        case "boosted":
            from idlewin.forecasters.boosted import Boosting  # noqa: PLC0415 - an extra

            return Watched(Boosting())
    raise ValueError(f"forecast.method {name!r} is not known; write one of {', '.join(METHODS)}")
