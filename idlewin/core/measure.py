"""Measuring: how long handovers take, by the last ones."""

from __future__ import annotations

from datetime import timedelta

from idlewin.core import timing
from idlewin.core.situation import Situation
from idlewin.core.status import LeadTimes, Window

SECOND = timedelta(seconds=1)


def openings(s: Situation) -> tuple[int, ...]:
    """How long giving the cards away took this time, beside the times before."""
    took = max(1, round((s.now - s.since) / SECOND))
    return (*s.status.opening_seconds, took)[-timing.KEPT :]


def start_ups(s: Situation, window: Window) -> tuple[LeadTimes, ...]:
    """The start-up of each target of this return, beside those that were measured before."""
    leads = {lead.target: lead for lead in s.status.lead_times}
    since, ready = window.restoring_since, s.serving_ready_at or s.now
    for target in window.targets:
        if since is None or target.replicas == 0 or not target.lowered:
            continue
        name = str(target.ref)
        before = leads.get(name, LeadTimes(target=name)).seconds
        took = max(1, round((ready - since) / SECOND))
        leads[name] = LeadTimes(target=name, seconds=(*before, took)[-timing.KEPT :])
    return tuple(leads[name] for name in sorted(leads))
