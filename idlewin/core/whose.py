"""Whose serving is: what its owner has of it now, and zeros of ours that nobody has on record."""

from __future__ import annotations

from idlewin.core.pool import MANAGER, Target
from idlewin.core.situation import Situation


def lost(s: Situation) -> tuple[Target, ...]:
    """Targets at our zero of which neither copy is left: nobody can tell what is right.

    A window that was opened on such a zero remembers it as 0, which is no copy.
    """
    window = {target.ref: target for target in (s.window.targets if s.window else ())}
    serving = [entry.ref for entry in s.rule.serving] if s.rule else []
    return tuple(
        now
        for ref in dict.fromkeys((*window, *serving))
        if (now := s.pool.target(ref))
        and now.replicas == 0
        and now.record is None
        and now.replicas_writer == MANAGER
        and (ref not in window or window[ref].uid != now.uid or window[ref].replicas == 0)
    )


def kept(s: Situation) -> tuple[str, ...]:
    """Targets of the window that somebody else has scaled: each as it is, and by whom."""
    return tuple(
        f"{now.ref} at {now.replicas} by {now.replicas_writer}"
        for target in (s.window.targets if s.window else ())
        if (now := s.pool.target(target.ref))
        and now.uid == target.uid
        and target.lowered
        and now.replicas_writer not in ("", MANAGER)
    )
