"""What goes wrong in a story, from all the files that bring something.

Such a file has ``EVENTS``, what may happen at any time, and ``AMBUSHES``, what hurts most in each
phase; a name that stands there twice comes twice as often. It is added to ``FILES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from idlewin.core.phase import Phase
from tests.simulation import (
    kueue_mishaps,
    machine_mishaps,
    people_mishaps,
    themes,
    writer_mishaps,
)

if TYPE_CHECKING:
    from tests.simulation.scenario import Story

FILES = (people_mishaps, machine_mishaps, kueue_mishaps, writer_mishaps, themes)

EVENTS: tuple[Callable[[Story], None], ...] = tuple(
    mishap for file in FILES for mishap in file.EVENTS
)
AMBUSHES: dict[Phase, tuple[Callable[[Story], None], ...]] = {
    phase: tuple(mishap for file in FILES for mishap in file.AMBUSHES.get(phase, ()))
    for phase in Phase
}
