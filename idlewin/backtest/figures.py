"""Figures: what windows brought and cost on a case, and what a budget of late returns buys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idlewin.backtest.case import WEEK, Case
from idlewin.forecasters.fleet import Reals
from idlewin.pricing.lend import Windows


@dataclass(frozen=True, slots=True)
class Budget:
    """So many late returns a card-week, or such a share of the returns."""

    per_week: float = 0.0
    share: float = 0.0

    @property
    def name(self) -> str:
        """As the JSON has it."""
        return f"{self.share:.2f}" if self.share else f"{self.per_week:g}"

    def allowed(self, case: Case) -> float:
        """How many late returns it allows on the judged part of a case."""
        return self.per_week * case.card_weeks + self.share * float(case.returns.sum())


#: HW@0.25, HW@1, HW@3 and HF@1, HF@5, HF@20.
PER_WEEK = (Budget(per_week=0.25), Budget(per_week=1), Budget(per_week=3))
SHARES = (Budget(share=0.01), Budget(share=0.05), Budget(share=0.20))
HEADLINE = PER_WEEK[1]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """What windows brought and cost on the judged part; arrays are by card."""

    harvested: Reals
    """Minutes of an open window, after the opening, without demand."""
    late: Reals
    """Returns that found the card opening, lent or warming up."""
    late_counted: Reals
    """Those of them after enough idle time to count in a share."""
    windows: Reals
    """Windows that demand or a plan ended in the judged part."""

    def spent(self, budget: Budget) -> float:
        """The late returns that count against a budget."""
        return float((self.late_counted if budget.share else self.late).sum())

    def mixed(self, other: Outcome, part: float) -> Outcome:
        """So much of this one, and the rest of another."""
        return Outcome(
            harvested=part * self.harvested + (1 - part) * other.harvested,
            late=part * self.late + (1 - part) * other.late,
            late_counted=part * self.late_counted + (1 - part) * other.late_counted,
            windows=part * self.windows + (1 - part) * other.windows,
        )


def outcome(case: Case, windows: Windows) -> Outcome:
    """Windows against the demand that came."""
    gaps, cards = case.gaps, len(case.fleet.cards)
    counts = case.judged[windows.gap] & (windows.ready > case.judged_from)
    gap, opened = windows.gap[counts], windows.open[counts]
    close, late = windows.close[counts], windows.late[counts]
    card = gaps.card[gap]
    begin = np.maximum(opened + round(case.handover.opening), case.judged_from)
    harvested = np.maximum(np.minimum(close, gaps.end[gap]) - begin, 0)
    long = case.returns[gap]

    def by_card(what: NDArray[Any]) -> Reals:
        return np.bincount(card, what, cards).astype(np.float64)

    return Outcome(
        harvested=by_card(harvested),
        late=by_card(late * 1.0),
        late_counted=by_card((late & long) * 1.0),
        windows=by_card(np.ones(len(card))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the JSON holds of one policy; shares are of the oracle's harvest."""

    causal: bool
    hw: dict[str, float | None]
    hf: dict[str, float | None]
    realised: dict[str, float]
    """Late returns a card-week at each budget a week, a share of the returns at each share."""
    on_time: float
    """Windows that ended with serving back before demand, of all; at the headline's budget."""
    worst_card: float
    """Late returns a week of the card that had most."""
    cards_over: float
    """The share of cards with more of them than the budget."""
    macro: float
    """The mean of the cards' own shares."""
    fit_s: float = 0.0
    plan_ms: float = 0.0


def figures(
    case: Case, outcomes: dict[Budget, Outcome], *, causal: bool, fit_s: float, plan_ms: float
) -> Figures:
    """The figures of a policy that was run at each budget."""
    total = float(case.best().sum())
    shares = {
        budget: _held(case, budget, found, total) if causal else _share(found, total)
        for budget, found in outcomes.items()
    }
    headline = outcomes[HEADLINE]
    weeks = (case.fleet.until - case.judged_from) / WEEK
    best = np.bincount(case.gaps.card, case.best(), len(case.fleet.cards))
    some = best > 0
    windows = float(headline.windows.sum())
    return Figures(
        causal=causal,
        hw={budget.name: shares[budget] for budget in PER_WEEK},
        hf={budget.name: shares[budget] for budget in SHARES},
        realised={
            budget.name: _rounded(
                found.spent(budget)
                / (max(float(case.returns.sum()), 1.0) if budget.share else case.card_weeks)
            )
            for budget, found in outcomes.items()
        },
        on_time=_rounded(1 - float(headline.late.sum()) / windows if windows else 1.0),
        worst_card=_rounded(float(headline.late.max()) / weeks),
        cards_over=_rounded(float((headline.late > HEADLINE.per_week * weeks).mean())),
        macro=_rounded(
            float((headline.harvested[some] / best[some]).mean()) if some.any() else 0.0
        ),
        fit_s=_rounded(fit_s),
        plan_ms=_rounded(plan_ms),
    )


def _share(found: Outcome, total: float) -> float:
    return _rounded(float(found.harvested.sum()) / total if total else 0.0)


def _held(case: Case, budget: Budget, found: Outcome, total: float) -> float | None:
    """The share, or None where the budget was broken by more than chance allows."""
    spent, allowed = found.spent(budget), budget.allowed(case)
    return None if spent > most_by_chance(allowed) else _share(found, total)


def most_by_chance(mean: float) -> int:
    """The one-sided 95 % bound of a count whose mean is known (Poisson)."""
    count, chance = 0, math.exp(-mean)
    total = chance
    if mean > _NORMAL:
        return math.ceil(mean + 1.645 * math.sqrt(mean))
    while total < 0.95:
        count += 1
        chance *= mean / count
        total += chance
    return count


#: From here on the normal law is near enough, and the other one's first term too small to be told.
_NORMAL = 500.0


def best_mix(outcomes: Sequence[Outcome], budget: Budget, allowed: float) -> Outcome:
    """The mix of two settings that harvests most within a budget, chosen in hindsight."""
    nothing = np.zeros_like(outcomes[0].harvested)
    none = Outcome(harvested=nothing, late=nothing, late_counted=nothing, windows=nothing)
    every = sorted([none, *outcomes], key=lambda found: found.spent(budget))
    found, most = none, 0.0
    for k, low in enumerate(every):
        if low.spent(budget) > allowed:
            break
        for high in every[k:]:
            over = high.spent(budget) - allowed
            part = (
                1.0
                if over <= 0
                else (allowed - low.spent(budget)) / (over + allowed - low.spent(budget))
            )
            harvested = part * high.harvested.sum() + (1 - part) * low.harvested.sum()
            if harvested > most:
                found, most = high.mixed(low, part), float(harvested)
    return found


def _rounded(value: float) -> float:
    return round(value, 4)
