"""Tune: a rule's own history, replayed under other values of its fields.

Each point of the grid is a rule that is replayed like any other (replay.py); nothing here knows how
it decides. What is left is the Pareto front: the points of which none is better in every respect.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from idlewin.codec import read_rule, write_rule
from idlewin.core.pareto import Costs, front
from idlewin.core.rule import METHODS, Rule
from idlewin.core.score import NO_SCORE, Score, gaps
from idlewin.core.text import format_share
from idlewin.errors import RuleError
from idlewin.forecasters import there
from idlewin.replay import WEEK, Case, Run, replay
from idlewin.ruleedit import Change
from idlewin.wording import nearest
from idlewin.workers import workers

#: Fields of a rule's spec that a grid may vary.
BUDGET, METHOD = "forecast.budget", "forecast.method"
FIELDS = (
    BUDGET,
    METHOD,
    "window.idleFor",
    "window.min",
    "window.max",
    "window.maxPerDay",
    "window.minServing",
)
#: A return counts in a share only after so much idle time, as in a backtest.
COUNTED = timedelta(minutes=30)
_FACTORS = (0.5, 1, 2)

#: Values by field, as a person writes them.
Vary = Mapping[str, Sequence[str]]
#: Hears how many runs are done.
Tell = Callable[[int], None]


class VaryError(ValueError):
    """A field or a value cannot be varied; the message says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A rule of the grid, and how it is written."""

    rule: Rule
    values: Mapping[str, str]
    """Of each varied field."""
    differs: tuple[str, ...]
    """The fields in which it is unlike the rule as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A point, and what it brought and cost over all cards of the history."""

    point: Point
    score: Score

    @property
    def costs(self) -> Costs:
        """Harvest with a minus, late returns, handovers."""
        score = self.score
        return (-score.harvested.total_seconds(), score.late_returns, score.handovers)


# -- the grid


def usual(rule: Rule) -> dict[str, tuple[str, ...]]:
    """What is varied where nobody says: the budget, the shortest window, and who forecasts."""
    written = write_rule(rule)
    budget, least = rule.forecast.budget, rule.window.min
    if budget.share is not None:
        shares = (min(1.0, budget.share * factor) for factor in _FACTORS)
        budgets = [format_share(share) for share in shares]
    else:
        budgets = [f"{(budget.per_week or 1.0) * factor:g}" for factor in _FACTORS]
    lengths = [least * factor for factor in _FACTORS if least * factor <= rule.window.max]
    named = [_written(replace(rule.window, min=length), rule) for length in lengths]
    methods = [name for name in METHODS if there(name)]
    own = _text(written, METHOD)
    return {
        BUDGET: tuple(dict.fromkeys(budgets)),
        "window.min": tuple(named),
        METHOD: tuple(dict.fromkeys((own, *methods))),
    }


def _written(window: Any, rule: Rule) -> str:
    return _text(write_rule(replace(rule, window=window)), "window.min")


def grid(rule: Rule, vary: Vary) -> tuple[list[Point], list[str]]:
    """The points: the rule as it is, then all combinations; and those that are no rule, told.

    Raises VaryError for a field that cannot be varied, and for a value in no possible rule.
    """
    for field in vary:
        if field not in FIELDS:
            raise VaryError(f"{field!r} cannot be varied{_known(field)}")
    now = write_rule(rule)
    own = {field: _text(now, field) for field in vary}
    points = {tuple(own.values()): Point(rule=rule, values=own, differs=())}
    left_out: list[str] = []
    used: set[tuple[str, str]] = set()
    refused: dict[tuple[str, str], str] = {}
    for texts in itertools.product(*vary.values()):
        values = dict(zip(vary, texts, strict=True))
        try:
            other = _with_values(now, values)
        except RuleError as error:
            why = f"{', '.join(map(' '.join, values.items()))}: {error}"
            refused |= {pair: refused.get(pair, why) for pair in values.items()}
            left_out.append(why)
            continue
        used |= set(values.items())
        written = write_rule(other)
        new = {field: _text(written, field) for field in vary}
        differs = tuple(field for field in vary if new[field] != own[field])
        points.setdefault(tuple(new.values()), Point(rule=other, values=values, differs=differs))
    if never := [why for pair, why in refused.items() if pair not in used]:
        raise VaryError(never[0])
    return list(points.values()), left_out


def _known(field: str) -> str:
    """The field that was likely meant, or all."""
    last = field.rpartition(".")[2].lower()
    for known in FIELDS:
        if known.lower().endswith(f".{last}"):
            return f"; did you mean {known!r}?"
    return nearest(field, FIELDS)


def _with_values(spec: Mapping[str, Any], values: Mapping[str, str]) -> Rule:
    changed = deepcopy(dict(spec))
    for field, text in values.items():
        section, key = field.split(".")
        changed.setdefault(section, {})[key] = _value(field, text)
    return read_rule(changed)


def _value(field: str, text: str) -> object:
    """A value as JSON data; what it may be is the codec's to say. Raises VaryError."""
    number = _number(text)
    if field == BUDGET:
        if text.endswith("%"):
            return {"share": text}
        if number is None:
            raise VaryError(
                f"{field}: {text!r} is no budget; write late returns a week of the pool, such as "
                "0.5, or a share of users' returns after half an hour of idle time, such as 5%"
            )
        return {"perWeek": number}
    if field == METHOD and text not in METHODS:
        raise VaryError(f"{field}: no forecaster {text!r}{nearest(text, METHODS)}")
    if field == METHOD and not there(text):
        raise VaryError(
            f"{field}: {text} needs LightGBM, which cannot be loaded; run: "
            "pip install 'idlewin[boosting]' (on Debian, apt install libgomp1 too)"
        )
    return number if field == "window.maxPerDay" and number is not None else text


def _number(text: str) -> float | int | None:
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return None
    return float(text) if "." in text else int(text)


def _text(spec: Mapping[str, Any], field: str) -> str:
    """A field of a written rule as a person would vary it; the same for equal values."""
    section, key = field.split(".")
    value = spec[section][key]
    if field == BUDGET:
        (value,) = value.values()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


# -- the runs


def tried(
    points: Sequence[Point], cases: Sequence[Case], run: Run, tell: Tell, cores: int
) -> list[Tried]:
    """What each point brought and cost on all cards, in the order of the points."""
    scores = [NO_SCORE] * len(points)
    with workers(cores) as pool:
        waiting = {
            pool.submit(_ours, replace(case, rule=point.rule), run): number
            for number, point in enumerate(points)
            for case in cases
        }
        for done, future in enumerate(as_completed(waiting), start=1):
            number = waiting[future]
            scores[number] = scores[number] + future.result()
            tell(done)
    return [Tried(point=point, score=score) for point, score in zip(points, scores, strict=True)]


def _ours(case: Case, run: Run) -> Score:
    return replay(case, run, _silent).ours


def _silent(_now: datetime, _phase: str) -> None:
    pass


# -- what is worth choosing


def best(all_: Sequence[Tried]) -> list[Tried]:
    """The Pareto front, fewest late returns first; of equal points the one nearest to the rule."""
    alike: dict[Costs, Tried] = {}
    for place in front([one.costs for one in all_]):
        one = all_[place]
        kept = alike.setdefault(one.costs, one)
        if len(one.point.differs) < len(kept.point.differs):
            alike[one.costs] = one
    return sorted(alike.values(), key=lambda one: (one.costs[1], one.costs[2], one.costs[0]))


def allowed(rule: Rule, cases: Iterable[Case]) -> float:
    """The late returns that a rule's budget allows over the judged part of some cards."""
    budget = rule.forecast.budget
    if budget.share is None:
        return (budget.per_week or 0.0) * sum(case.judged.length / WEEK for case in cases)
    returns = sum(gap.length >= COUNTED for case in cases for gap in gaps(case.busy, case.judged))
    return budget.share * returns


def suggested(front_: Sequence[Tried], most: float) -> Tried | None:
    """The most harvest of those that were late no more often than allowed, where there is one."""
    within = [one for one in front_ if one.score.late_returns <= most]
    return min(within, key=lambda one: one.costs, default=None)


def changes(point: Point) -> list[Change]:
    """What a rule file says otherwise at a point."""
    found = []
    for field in point.differs:
        path, text = ("spec", *field.split(".")), point.values[field]
        if field != BUDGET:
            found.append(Change(path=path, value=text))
            continue
        names = ("share", "perWeek") if text.endswith("%") else ("perWeek", "share")
        found.append(Change(path=(*path, names[0]), value=text, instead=names[1]))
    return found
