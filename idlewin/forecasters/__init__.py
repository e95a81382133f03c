"""Forecasters: how likely a pool stays idle, from its history alone.

One file a method; none imports another; ``past.py`` is what they share. numpy and the core, and
nothing else: no clock, no I/O, no state that a restart would lose. The oracle knows the future,
so it is in replay only, and no rule can name it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from datetime import datetime
from importlib import import_module

from idlewin.core.forecast import Forecaster
from idlewin.forecasters import hazard
from idlewin.forecasters.ahead import Method
from idlewin.forecasters.persistence import Persistence
from idlewin.forecasters.seasonal import Seasonal

#: What a rule's ``forecast.method`` may be.
METHODS = ("persistence", "seasonal")


#: What a backtest runs: the last one asks whichever of the others did best so far.
AUTO = "auto"
BACKTESTED = ("elapsed", "hazard", "boosted", AUTO)


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
            return hazard.Hazards(hours=False, name="elapsed")
        case "hazard":
            return hazard.Hazards()
        case "boosted":
            from idlewin.forecasters.boosted import Boosting  # noqa: PLC0415 - an extra

            return Boosting()
    raise ValueError(f"forecast.method {name!r} is not known")


def forecaster(name: str, *, local: Callable[[datetime], datetime]) -> Forecaster:
    """The forecaster of a name; ``local`` turns an instant into the same one in the rule's zone.

    Raises ValueError for an unknown name.
    """
    match name:
        case "persistence":
            return Persistence()
        case "seasonal":
            return Seasonal(local)
    near = difflib.get_close_matches(name, METHODS, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(METHODS)}"
    raise ValueError(f"forecast.method {name!r} is not known; {remedy}")
