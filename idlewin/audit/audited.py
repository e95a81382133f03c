"""All checks over all facts."""

from __future__ import annotations

from datetime import datetime

from idlewin.audit.cards import of_cards
from idlewin.audit.facts import Facts
from idlewin.audit.finding import Finding
from idlewin.audit.queued import of_batch, of_priorities, of_quota, of_settings, of_writers


def audited(facts: Facts, now: datetime) -> list[Finding]:
    """Every finding once, by id and object."""
    every = [
        *of_cards(facts, now),
        *of_settings(facts),
        *of_batch(facts, now),
        *of_quota(facts),
        *of_writers(facts),
        *of_priorities(facts),
    ]
    return sorted(dict.fromkeys(every), key=lambda one: (one.id, one.about, one.where, one.seen))
