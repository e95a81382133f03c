"""Learnt: what the past of all pools says, as of one instant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from idlewin.core.rule import AUTO, METHODS, Budget
from idlewin.core.stopping import Handover
from idlewin.core.window import Span
from idlewin.forecasters import method, there
from idlewin.forecasters.ahead import STEP, Model
from idlewin.forecasters.fleet import Card, Fleet, fleet, minute
from idlewin.pricing.control import PRICES, Record, mixed
from idlewin.pricing.relent import Past, Relending, past

#: A price is learnt from so many pools at most: more tell it no better.
PRICED = 128
MINUTE = timedelta(minutes=1)
#: An idle pool is asked for more often.
UNASKED = timedelta(minutes=15)
Relendings = Mapping[tuple[str, Handover], Relending]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Known:
    """A pool as it was last seen."""

    card: Card
    number: int
    """Its own, whichever others come and go."""
    at: datetime
    method: str
    opening: timedelta
    back: timedelta


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Learnt:
    """Models of the pools that were known at an instant, and what prices would have brought."""

    at: datetime
    fleet: Fleet
    index: Mapping[str, int]
    """Where each pool stands in the fleet."""
    models: Mapping[str, Model]
    records: Mapping[str, Record] = field(default_factory=dict)
    """Empty while the last weeks are lent again."""
    past: Past | None = None

    @property
    def history(self) -> timedelta:
        """How much of the past was known."""
        return (minute(self.at) - self.fleet.start) * MINUTE


def together(known: Iterable[Known], now: datetime) -> Fleet:
    """Pools as a fleet. A busy one is not asked for: since it last was, it counts as busy."""
    return fleet([_up_to(one.card, now) for one in known])


def _up_to(card: Card, now: datetime) -> Card:
    known = card.history
    if now - known.covers.end < UNASKED:
        return card
    since = Span(known.covers.end, now)
    covers, unknown = Span(known.covers.start, now), (*known.unknown, since)
    return replace(card, history=replace(known, covers=covers, unknown=unknown))


def fitted(known: Mapping[str, Known], now: datetime) -> Learnt:
    """Each method that a rule asks for, fitted to what is known."""
    seen = together(known.values(), now)
    names = dict.fromkeys(name for one in known.values() for name in wanted(one.method))
    return Learnt(
        at=now,
        fleet=seen,
        index={name: number for number, name in enumerate(known)},
        models={name: method(name).fit(seen, minute(now)) for name in names},
    )


def priced(
    learnt: Learnt, known: Sequence[Known], before: Relendings
) -> tuple[Learnt, dict[tuple[str, Handover], Relending]]:
    """The same with what each price would have brought; ``before`` is what was judged already."""
    step = -(-len(known) // PRICED)
    some = known[::step]
    seen = learnt.fleet if step == 1 else together(some, learnt.at)
    ids = np.array([one.number for one in some])
    found, handover = past(seen, ids, minute(learnt.at)), _handover(known)
    relent = {(name, handover): before.get((name, handover), Relending()) for name in learnt.models}
    records = {name: one.record(found, method(name), handover) for (name, _), one in relent.items()}
    return replace(learnt, records=records, past=found), relent


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Choice:
    """Which method each pool has under a budget, and the number of the price that keeps it."""

    at: datetime
    """When it was learnt."""
    usual: str
    """That of a pool that no price is learnt from."""
    own: Mapping[str, str]
    number: int


def choice(
    learnt: Learnt, past: Past, names: Sequence[str], budget: Budget, before: Choice | None
) -> Choice:
    """What the last weeks say of some methods; ``before`` is what was chosen so far."""
    records = [learnt.records[name].of(share=budget.share is not None) for name in names]
    first = names.index(before.usual) if before and before.usual in names else 0
    mix = mixed(records, past.allowed(budget), first, PRICES)
    own = {
        pool: names[chosen]
        for pool, chosen in zip(past.fleet.cards, mix.chosen.tolist(), strict=True)
    }
    return Choice(at=learnt.at, usual=names[mix.usual], own=own, number=mix.number)


def wanted(asked: str) -> list[str]:
    """The methods behind the one that a rule names, as far as they are installed."""
    names = [name for name in METHODS if name != AUTO] if asked == AUTO else [asked]
    return [name for name in names if there(name)]


def _handover(known: Sequence[Known]) -> Handover:
    """What a window costs, mostly: told in steps, so that a second more does not judge all anew."""
    opening = sorted(one.opening for one in known)[len(known) // 2]
    back = sorted(one.back for one in known)[len(known) // 2]
    return Handover(
        opening=math.ceil(opening / MINUTE), warming=STEP * math.ceil(back / (STEP * MINUTE))
    )
