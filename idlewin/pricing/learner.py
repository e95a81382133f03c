"""The learner: forecasts and prices for the rules of one controller, learnt from all their pools.

Once a day, and when pools have come, each method that a rule asks for is fitted to the past of all
pools, and the last weeks are lent again at each price (``relent.py``). In between a forecast is a
look into what was learnt. All of it is found again after a restart; until then the price and the
method that stand in a rule's status go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import count
from threading import Lock

import numpy as np

from idlewin.core.account import PERIOD, recent
from idlewin.core.calendar import zone
from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.core.rule import AUTO, METHODS, Budget, Rule
from idlewin.core.status import Account, Status
from idlewin.core.timing import before_return, opening_time
from idlewin.core.window import Span
from idlewin.forecasters import there
from idlewin.forecasters.ahead import STEP, STEPS, Asked
from idlewin.forecasters.fleet import Card, Fleet, Place, fleet, minute, place
from idlewin.pricing.control import PRICES, YOUNG, corrected
from idlewin.pricing.learnt import (
    MINUTE,
    Choice,
    Known,
    Learnt,
    Relendings,
    choice,
    fitted,
    priced,
    together,
    wanted,
)
from idlewin.pricing.relent import returns

#: Pools that came since are learnt from after this; all are learnt anew after a day.
JOIN, ANEW = timedelta(minutes=10), timedelta(days=1)
#: The pools' last hours are looked at anew after this.
REPLAN = timedelta(minutes=5)
#: A pool that nobody asked for so long is forgotten.
FORGET = timedelta(days=7)
#: A clock that is behind the history by more is not believed.
SKEW = timedelta(minutes=5)
DAY, WEEK = timedelta(days=1), timedelta(weeks=1)
_GRID = tuple(STEP * MINUTE * (k + 1) for k in range(STEPS))
#: Does a task now, or in the background.
Run = Callable[[Callable[[], None]], None]
#: The public holidays of a country or region around a stretch.
Holidays = Callable[[str | None, Span], Sequence[date]]


def at_once(task: Callable[[], None]) -> None:
    """Do it now: where time is virtual, and where one answer is all that is asked."""
    task()


def no_holidays(_code: str | None, _over: Span) -> Sequence[date]:
    """None."""
    return ()


class Learner:
    """The one forecaster of a controller. Cycles ask it from several threads."""

    def __init__(
        self, run: Run = at_once, holidays: Holidays = no_holidays, *, prices: bool = True
    ) -> None:
        """``prices``: learn them; else those that stand in the status are taken."""
        self._run, self._holidays, self._prices = run, holidays, prices
        self._lock = Lock()
        self._known: dict[str, Known] = {}
        self._places: dict[tuple[str, str | None], tuple[datetime, Place]] = {}
        self._relent: Relendings = {}
        self._learnt: Learnt | None = None
        self._learning = False
        self._tried: datetime | None = None
        self._numbers = count()
        self._latest: tuple[datetime, Learnt, Fleet] | None = None
        self._chosen: dict[tuple[str, Budget], Choice] = {}
        self._trouble = ""

    def forecast(
        self, rule: RuleObject, history: History, now: datetime, idle_since: datetime
    ) -> Forecast:
        """A forecast at an instant, for a rule's pool that has been idle since then."""
        spec = rule.rule
        assert spec is not None  # noqa: S101 - only a rule that can be read is forecast
        if spec.forecast.budget.share == 1.0:
            return _without(spec, now, "the budget: every return may be late", ready=True)
        if why := _doubt(spec, history, now):
            return _without(spec, now, why)
        with self._lock:
            self._see(rule, spec, history, now)
            due = self._due(rule.name, wanted(spec.forecast.method), now)
            if due:
                self._learning, self._tried = True, now
        if due:
            self._begin(now)
        learnt = self._learnt
        if learnt is None or rule.name not in learnt.index:
            return _without(spec, now, self._trouble or "the pools' past is being learnt from")
        if learnt.history < YOUNG * DAY:
            return _without(spec, now, f"needs {YOUNG} d, has {learnt.history / DAY:.2g} d")
        return self._told(rule, spec, learnt, (now, idle_since))

    # -- learning

    def _see(self, rule: RuleObject, spec: Rule, history: History, now: datetime) -> None:
        before, status = self._known.get(rule.name), rule.status or Status()
        self._known[rule.name] = Known(
            card=Card(name=rule.name, history=history, place=self._place(spec, now)),
            number=before.number if before else next(self._numbers),
            at=now,
            method=spec.forecast.method,
            opening=opening_time(status),
            back=before_return(spec, status),
        )

    def _place(self, spec: Rule, now: datetime) -> Place:
        key = (spec.window.calendar.time_zone, spec.forecast.day_types.holidays)
        made_at, found = self._places.get(key, (now, None))
        if found is None or not made_at <= now < made_at + WEEK:
            local, over = zone(key[0]), Span(now - 2 * PERIOD, now + 2 * WEEK)
            found = place(lambda at: at.astimezone(local), over, self._holidays(key[1], over))
            self._places[key] = now, found
        return found

    def _due(self, name: str, methods: Sequence[str], now: datetime) -> bool:
        learnt, tried = self._learnt, self._tried
        if self._learning or (tried and timedelta() <= now - tried < REPLAN):
            return False
        if learnt is None or (self._prices and learnt.past is None):
            return True
        joins = name not in learnt.index or not learnt.models.keys() >= set(methods)
        return not timedelta() <= now - learnt.at < (JOIN if joins else ANEW)

    def _begin(self, now: datetime) -> None:
        try:
            self._run(partial(self._learn, now))
        except RuntimeError as error:  # no thread is to be had
            self._trouble = f"the pools' past could not be learnt from: {error}"
            self._learning = False

    def _learn(self, now: datetime) -> None:
        try:
            with self._lock:
                self._forget(now)
                # In the order of their names, whoever asked first.
                known = {n: k for n, k in sorted(self._known.items()) if now - k.at < FORGET}
            learnt = fitted(known, now)
            if self._learnt is None or not self._prices:
                # The price that stands goes on while the last weeks are lent again.
                self._learnt = learnt
            if self._prices:
                self._learnt, self._relent = priced(learnt, list(known.values()), self._relent)
            self._trouble = ""
        except Exception as error:  # noqa: BLE001 - a library's fault too: nothing is lent on it
            self._trouble = f"the pools' past could not be learnt from: {error}"
        finally:
            self._learning = False

    def _forget(self, now: datetime) -> None:
        """Those that are gone, and not learnt from any more."""
        learnt = self._learnt.index if self._learnt else self._known
        for name in self._known.keys() - learnt:
            if now - self._known[name].at >= FORGET:
                del self._known[name]

    # -- telling

    def _told(
        self, rule: RuleObject, spec: Rule, learnt: Learnt, when: tuple[datetime, datetime]
    ) -> Forecast:
        (now, idle_since), account = when, (rule.status or Status()).budget
        allowed = _allowed(spec.forecast.budget, self._known[rule.name].card, rule, now)
        name, price = self._priced(rule.name, spec, learnt, account, (allowed, now))
        if not name:
            why = self._trouble or "the price of a late return is being learnt"
            return _without(spec, now, why)
        seen, number = self._seen(learnt, now), learnt.index[rule.name]
        elapsed = max(0, minute(now) - minute(idle_since))
        asked = Asked(*(np.array([n]) for n in (number, minute(now), elapsed)))
        model = learnt.models[name]
        chances = np.exp(-STEP * np.cumsum(model.rates(seen, asked)[0]))
        return Forecast(
            method=name,
            made_at=now,
            chances=tuple(zip(_GRID, chances.tolist(), strict=True)),
            rests_on=model.rests_on(seen, number, elapsed),
            price=price,
            allowed=allowed,
        )

    def _priced(
        self, pool: str, spec: Rule, learnt: Learnt, account: Account, asked: tuple[float, datetime]
    ) -> tuple[str, float]:
        """The method that is asked, and what a late return costs; empty: not known yet."""
        names = [name for name in wanted(spec.forecast.method) if name in learnt.models]
        if learnt.past is None or not names:
            known = account.method in names and account.price > 0
            price = min(max(account.price, float(PRICES[0])), float(PRICES[-1]))
            return (account.method, price) if known else ("", 0.0)
        key = spec.forecast.method, spec.forecast.budget
        found = self._chosen.get(key)
        if found is None or found.at != learnt.at:
            found = self._chosen[key] = choice(learnt, learnt.past, names, key[1], found)
        allowed, now = asked
        number = corrected(found.number, len(recent(account.late_at, now)), allowed, PRICES)
        return found.own.get(pool, found.usual), float(PRICES[number])

    def _seen(self, learnt: Learnt, now: datetime) -> Fleet:
        """The pools' demand up to about now, in the order in which they were learnt."""
        with self._lock:
            kept = self._latest
            if kept is None or kept[1] is not learnt or not timedelta() <= now - kept[0] < REPLAN:
                seen = together([self._known[name] for name in learnt.index], now)
                kept = self._latest = now, learnt, seen
            return kept[2]


def _doubt(spec: Rule, history: History, now: datetime) -> str:
    """Why no forecast can be made; empty where one can."""
    name = spec.forecast.method
    if name not in METHODS:
        return f"there is no forecast.method {name!r}; write one of {', '.join(METHODS)}"
    if name != AUTO and not there(name):
        return f"forecast.method {name!r} needs the extra idlewin[boosting], which is not installed"
    if now < history.covers.end - SKEW:
        behind = round((history.covers.end - now) / MINUTE)
        return f"the clock is {behind} min behind the history's end; is it set right?"
    return ""


def _without(spec: Rule, now: datetime, why: str, *, ready: bool = False) -> Forecast:
    """A forecast that tells nothing of the time ahead."""
    return Forecast(method=spec.forecast.method, made_at=now, chances=(), rests_on=why, ready=ready)


def _allowed(budget: Budget, card: Card, rule: RuleObject, now: datetime) -> float:
    """How many late returns a budget allows in the account's period, or since the rule is there."""
    age = min(PERIOD, max(now - (rule.created_at or now - PERIOD), timedelta()))
    if budget.per_week is not None:
        return budget.per_week * (age / WEEK)
    gaps, days = fleet([card]).gaps(), max(1, age // DAY)
    return (budget.share or 0.0) * float(returns(gaps, minute(now - age), days).sum())
