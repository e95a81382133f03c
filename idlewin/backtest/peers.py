"""Peers: the rules that people use, each at many settings, in the same backtest.

Each learns from the past of a day alone; only which setting is best is chosen in hindsight, for
all of them alike. What a setting would do at each step has the same form as what a price would do,
so windows, tallies and figures are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from idlewin.backtest.case import Case
from idlewin.forecasters.ahead import STEP, Asked
from idlewin.forecasters.fleet import DAY, QUARTER, Flags, Fleet, Minutes, Reals
from idlewin.forecasters.plans import EVERY, Plans
from idlewin.pricing.judge import Judged, days_of

#: Steps that a plan holds.
_STEPS = np.arange(EVERY // STEP) * STEP
SLOTS = DAY // QUARTER

Settings = tuple[float, ...]
Wants = tuple[Flags, Flags]
"""Whether each setting lends, or gives back, at a step: plan x step x setting."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A rule in use."""

    name: str
    settings: Settings
    """In order: the last lends least."""
    wants: Callable[[Case, int, Asked, Settings], Wants]
    """By what was known before an instant, for cards that idle then."""


def judged(case: Case, found: Plans, peer: Peer) -> Judged:
    """What each setting does at each step of each plan."""
    shape = (len(found), len(_STEPS), len(peer.settings))
    opens, closes = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for until, which in days_of(case.fleet.start, found, 1):
        opens[which], closes[which] = peer.wants(case, until, found.asked(which), peer.settings)
    return Judged(plans=found, opens=opens, closes=closes, handover=case.handover)


# -- keep-alive: lend after so much idle time, until demand comes


def _keep_alive(case: Case, until: int, asked: Asked, settings: Settings) -> Wants:  # noqa: ARG001 - it learns nothing
    idle = asked.elapsed[:, None] + _STEPS
    opens = idle[:, :, None] >= np.array(settings)
    return opens, np.zeros_like(opens)


# -- hybrid histogram (Shahrad et al., USENIX ATC 2020)

#: Minutes of its histogram; longer idle times are out of bounds.
RANGE = 240
#: How many bins must be uneven for a histogram to say something: the variation of their counts.
UNEVEN = 2.0
MARGIN = 0.1


def _histogram(case: Case, until: int, asked: Asked, settings: Settings) -> Wants:
    """Put away at once, warm again before the low percentile, kept to the high one, then away.

    Where the histogram says nothing, or most idle times are out of its bounds, it keeps alive for
    its whole range.
    """
    gaps = case.fleet.gaps(until)
    past, length = gaps.card[gaps.ended], (gaps.end - gaps.start)[gaps.ended]
    idle = asked.elapsed[:, None] + _STEPS
    opens = np.zeros((*idle.shape, len(settings)), np.bool_)
    closes = np.zeros_like(opens)
    warming = case.handover.warming
    for card in np.unique(asked.card):
        mine = np.sort(length[past == card])
        which = asked.card == card
        time = idle[which][:, :, None]
        inside = mine[mine < RANGE]
        bins = np.bincount(inside, minlength=RANGE) if len(inside) else np.zeros(RANGE)
        uneven = bins.std() / bins.mean() if bins.any() else 0.0
        if len(inside) < len(mine) / 2 or uneven <= UNEVEN:
            opens[which] = time >= RANGE
            continue
        low = np.quantile(inside, np.array(settings) / 100) * (1 - MARGIN)
        high = np.quantile(inside, 1 - np.array(settings) / 100) * (1 + MARGIN)
        opens[which] = (time < low - warming) | (time >= high)
        closes[which] = (time >= low - warming) & (time < high)
    return opens, closes


# -- hours that are learnt: of the last weeks, and of all days as a probability


def _hours_of(fleet: Fleet, until: int, slot: int, days: int) -> tuple[Reals, Reals]:
    """Of each card and slot of the week: on how many weeks it had demand, and was looked at."""
    first = max(fleet.start, until - days * DAY)
    at = np.arange(first, until - slot + 1, slot)
    cards = np.arange(len(fleet.cards))
    card, start = np.repeat(cards, len(at)), np.tile(at, len(cards))
    busy = fleet.busy_before(card, start + slot) > fleet.busy_before(card, start)
    local, _ = fleet.local(card, start)
    cell = card * (7 * DAY // slot) + local % (7 * DAY) // slot
    size = len(cards) * 7 * DAY // slot
    shape = (len(cards), 7 * DAY // slot)
    had = np.bincount(cell, busy, size).astype(np.float64)
    looked = np.bincount(cell, minlength=size).astype(np.float64)
    return had.reshape(shape), looked.reshape(shape)


def _ahead(case: Case, asked: Asked, busy: Callable[[Minutes, Minutes], Reals]) -> Reals:
    """The worst of what is said of the time that an opening needs from each step on."""
    fleet = case.fleet
    needs = np.arange(0, case.handover.opening + case.handover.warming + 1, STEP).astype(np.int64)
    at = asked.at[:, None, None] + _STEPS[:, None] + needs
    card = np.broadcast_to(asked.card[:, None, None], at.shape)
    worst: Reals = busy(card, fleet.local(card, at)[0]).max(axis=2)
    return worst


def _cron(case: Case, until: int, asked: Asked, settings: Settings) -> Wants:
    """Lend in the hours of the week that had little demand in the last two weeks."""
    busy, looked = _hours_of(case.fleet, until, 60, 14)
    # An hour of the week that was never looked at is not lent.
    share = np.where(looked > 0, busy / np.maximum(looked, 1), 1.0)
    day = busy.reshape(len(busy), 7, 24).sum(1) / np.maximum(
        looked.reshape(len(busy), 7, 24).sum(1), 1
    )
    told = (share + np.tile(day, 7)) / 2
    worst = _ahead(case, asked, lambda card, local: told[card, local % (7 * DAY) // 60])
    opens = worst[:, :, None] <= 1 - np.array(settings)
    return opens, ~opens


def _seasonal(case: Case, until: int, asked: Asked, settings: Settings) -> Wants:
    """Lend while the chance that a quarter of an hour of the day has no demand is high."""
    busy, looked = _hours_of(case.fleet, until, QUARTER, 28)
    cards = len(busy)
    counts = [what.reshape(cards, 7, SLOTS).sum(axis=1) for what in (busy, looked)]
    share = (counts[0] + 0.5) / (counts[1] + 1.0)
    worst = _ahead(case, asked, lambda card, local: share[card, local % DAY // QUARTER])
    opens = worst[:, :, None] <= 1 - np.array(settings)
    return opens, ~opens


# -- FFT, as Crane's effective horizontal autoscaler does

HARMONICS = 20
HISTORY = 7 * DAY


def _fft(case: Case, until: int, asked: Asked, settings: Settings) -> Wants:
    """Lend while the strongest harmonics of the last week say that there is no demand."""
    fleet = case.fleet
    days = min(HISTORY, (until - fleet.start) // DAY * DAY)
    at = np.arange(until - days, until, QUARTER)
    cards = np.arange(len(fleet.cards))
    card, start = np.repeat(cards, len(at)), np.tile(at, len(cards))
    series = (fleet.busy_before(card, start + QUARTER) - fleet.busy_before(card, start)) / QUARTER
    spectrum = np.fft.rfft(series.reshape(len(cards), -1), axis=1)
    strength = np.abs(spectrum)
    weakest = np.argsort(-strength[:, 1:], axis=1)[:, HARMONICS:] + 1
    np.put_along_axis(spectrum, weakest, 0, axis=1)
    # The wave repeats after the history that it was made of.
    wave = np.fft.irfft(spectrum, n=len(at), axis=1)
    steps = len(at)
    needs = np.arange(0, case.handover.opening + case.handover.warming + 1, STEP).astype(np.int64)
    then = asked.at[:, None, None] + _STEPS[:, None] + needs
    which = (then - (until - days)) // QUARTER % steps
    worst = wave[asked.card[:, None, None], which].max(axis=2)
    opens = worst[:, :, None] <= 1 - np.array(settings)
    return opens, ~opens


def _between(first: float, last: float, count: int) -> Settings:
    return tuple(np.geomspace(first, last, count).tolist())


_UNLIKELY = tuple((1 - np.geomspace(0.9, 0.001, 24)).tolist())

#: Rules in use, with what is set: idle minutes, a percentile, or the least chance of no demand.
PEERS = (
    Peer("keep-alive", _between(5, 5760, 40), _keep_alive),
    Peer("cron", _UNLIKELY, _cron),
    Peer("histogram", tuple(np.geomspace(50, 0.1, 20).tolist()), _histogram),
    Peer("seasonal", _UNLIKELY, _seasonal),
    Peer("fft", tuple((1 - np.linspace(0.9, -0.3, 30)).tolist()), _fft),
)
