"""Run: forecasters and peers on a case, on all cores, each day by what was known before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from idlewin.backtest import peers
from idlewin.backtest.case import Case
from idlewin.backtest.figures import (
    PER_WEEK,
    SHARES,
    Budget,
    Figures,
    Outcome,
    best_mix,
    figures,
    outcome,
)
from idlewin.forecasters import method
from idlewin.forecasters.ahead import STEP, Asked, Method
from idlewin.forecasters.fleet import DAY, Minutes, Reals
from idlewin.forecasters.plans import EVERY, Plans, plans
from idlewin.pricing.control import PRICES, Course, Record, controlled
from idlewin.pricing.judge import Judged, days_of, judged_on
from idlewin.pricing.lend import Tally, Windows, lent, tally
from idlewin.workers import workers

#: Hears the policy, how many of its days are done, and of how many.
Tell = Callable[[str, int, int], None]
BUDGETS = (*PER_WEEK, *SHARES)
#: Where the curves of peers are drawn.
ALONG = tuple(Budget(per_week=float(rate)) for rate in np.geomspace(0.1, 6, 12))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trial:
    """What a forecaster would have done at each price, and what its parts took, in seconds."""

    judged: Judged
    record: Record
    fit_s: float
    plan_ms: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result:
    """A policy's windows at each budget, where it is causal, and its figures."""

    figures: Figures
    points: tuple[tuple[float, float], ...]
    """Late returns a card-week, and the share of the oracle's harvest that they bought."""
    windows: dict[Budget, Windows]

    @property
    def causal(self) -> bool:
        """Whether nothing was chosen in hindsight."""
        return self.figures.causal


# -- judging, a day of a forecaster at a time


@dataclass(slots=True, eq=False)
class _Worker:
    """What a process keeps between days: the case, and what its methods have learnt."""

    case: Case
    methods: dict[str, Method] = field(default_factory=dict)


_worker: list[_Worker] = []


def _begin(case: Case) -> None:
    _worker[:] = [_Worker(case)]


@dataclass(frozen=True, slots=True, eq=False)
class _Day:
    """What the plans of a day are to do, packed, and the seconds that it took."""

    which: Minutes
    opens: NDArray[np.uint8]
    closes: NDArray[np.uint8]
    fit_s: float
    plan_s: float


def _day(name: str, until: int, which: Minutes, asked: Asked) -> _Day:
    worker = _worker[0]
    used = worker.methods.setdefault(name, method(name))
    begun = time.perf_counter()
    model = used.fit(worker.case.fleet, until)
    fitted = time.perf_counter()
    opens, closes = judged_on(worker.case.fleet, asked, model, PRICES, worker.case.handover)
    return _Day(
        which=which,
        opens=np.packbits(opens, axis=2),
        closes=np.packbits(closes, axis=2),
        fit_s=fitted - begun,
        plan_s=time.perf_counter() - fitted,
    )


def tried(case: Case, names: Sequence[str], tell: Tell, cores: int) -> dict[str, Trial]:
    """What each forecaster would have done at each price."""
    found = plans(case.gaps)
    # Of the first day nothing is known when it begins.
    days = list(days_of(case.fleet.start, found, 1))
    jobs = [(name, until, which) for name in names for until, which in reversed(days)]
    done: dict[str, list[_Day]] = {name: [] for name in names}
    with workers(cores, _begin, case) as pool:
        waiting: dict[Future[_Day], str] = {
            pool.submit(_day, name, until, which, found.asked(which)): name
            for name, until, which in jobs
        }
        for future in as_completed(waiting):
            name = waiting[future]
            done[name].append(future.result())
            tell(name, len(done[name]), len(days))
    return {name: _trial(case, found, parts) for name, parts in done.items()}


def _trial(case: Case, found: Plans, parts: Sequence[_Day]) -> Trial:
    shape = (len(found), EVERY // STEP, len(PRICES))
    judged = Judged(
        plans=found,
        opens=np.zeros(shape, np.bool_),
        closes=np.zeros(shape, np.bool_),
        handover=case.handover,
    )
    for part in parts:
        for kept, packed in ((judged.opens, part.opens), (judged.closes, part.closes)):
            kept[part.which] = np.unpackbits(packed, axis=2, count=len(PRICES))
    return Trial(
        judged=judged,
        record=record(case, judged, len(PRICES)),
        fit_s=sum(part.fit_s for part in parts),
        plan_ms=1e3 * sum(part.plan_s for part in parts) / max(len(found), 1),
    )


def record(case: Case, judged: Judged, settings: int) -> Record:
    """What each price, or setting, would have brought and cost day by day and card by card."""
    tallies = [_tally(case, lent(judged, np.full(len(judged.plans), k))) for k in range(settings)]
    return Record(
        harvested=np.array([one.harvested for one in tallies]),
        late=np.array([one.late for one in tallies]),
        late_counted=np.array([one.late_counted for one in tallies]),
    )


def _tally(case: Case, windows: Windows) -> Tally:
    shape = case.days, len(case.fleet.cards)
    return tally(case.gaps, windows, case.handover, case.fleet.start, shape)


# -- the price of each day, at each budget


def followed(case: Case, trials: Sequence[Trial], prices: Reals) -> Result:
    """The windows of a forecaster, or of several, each where it is best, under each budget."""
    found = trials[0].judged.plans
    day, card = (found.at - case.fleet.start) // DAY, case.gaps.card[found.gap]
    judged_from = (case.judged_from - case.fleet.start) // DAY

    def windows(course: Course) -> Windows:
        return lent(_chosen(trials, course.chosen[day, card]), course.number[day])

    ran = {}
    for budget in BUDGETS:

        def spent(course: Course, until: int, budget: Budget = budget) -> float:
            seen = _tally(case, windows(course))
            late = seen.late_counted if budget.share else seen.late
            return float(late[judged_from : until + 1].sum())

        allowed = case.allowed(per_week=budget.per_week, share=budget.share)
        records = [trial.record.of(share=bool(budget.share)) for trial in trials]
        ran[budget] = windows(controlled(records, allowed, judged_from, spent, prices))
    outcomes = {budget: outcome(case, made) for budget, made in ran.items()}
    return Result(
        figures=figures(
            case,
            outcomes,
            causal=True,
            fit_s=sum(trial.fit_s for trial in trials),
            plan_ms=sum(trial.plan_ms for trial in trials),
        ),
        points=_points(case, [outcomes[budget] for budget in PER_WEEK]),
        windows=ran,
    )


def _chosen(trials: Sequence[Trial], chosen: Minutes) -> Judged:
    """What the forecaster that is asked at each plan says."""
    if len(trials) == 1:
        return trials[0].judged
    first = trials[0].judged
    opens, closes = first.opens.copy(), first.closes.copy()
    for number, trial in enumerate(trials[1:], start=1):
        asked = chosen == number
        opens[asked], closes[asked] = trial.judged.opens[asked], trial.judged.closes[asked]
    return replace(first, opens=opens, closes=closes)


# -- peers, at the settings that turn out best


def peer(case: Case, found: Plans, of: peers.Peer) -> Result:
    """A peer under each budget, its settings mixed in hindsight."""
    begun = time.perf_counter()
    judged = peers.judged(case, found, of)
    seconds = time.perf_counter() - begun
    every = [outcome(case, lent(judged, np.full(len(found), k))) for k in range(len(of.settings))]
    outcomes = {budget: best_mix(every, budget, budget.allowed(case)) for budget in BUDGETS}
    along = [best_mix(every, one, one.allowed(case)) for one in ALONG]
    return Result(
        figures=figures(
            case,
            outcomes,
            causal=False,
            fit_s=0.0,
            plan_ms=1e3 * seconds / max(len(found), 1),
        ),
        points=_points(case, along),
        windows={},
    )


def _points(case: Case, outcomes: Sequence[Outcome]) -> tuple[tuple[float, float], ...]:
    most = float(case.best().sum())
    return tuple(
        (float(one.late.sum()) / case.card_weeks, float(one.harvested.sum()) / most)
        for one in outcomes
        if most
    )
