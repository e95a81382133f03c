"""Account: late returns that were, against those that a rule's budget allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.core.situation import Situation
from idlewin.core.status import Account, Status

#: Older late returns are forgotten: a budget that was not used up long ago is not saved up.
PERIOD = timedelta(weeks=4)
#: So many are remembered at most.
MOST = 200


def recent(late: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """The late returns of the period, the latest last; those of a clock gone wrong are dropped."""
    return tuple(at for at in late if abs(now - at) < PERIOD)[-MOST:]


def charged(s: Situation, status: Status) -> Status:
    """The status after one more late return."""
    late = (*status.budget.late_at, s.now)
    return replace(status, budget=replace(status.budget, late_at=late))


def settled(s: Situation, status: Status) -> Status:
    """The status with what the account says now: what is allowed, and the price that follows."""
    late = recent(status.budget.late_at, s.now)
    account = replace(status.budget, late_at=late, spent=len(late))
    if s.outlook is not None and s.outlook.forecast.ready:
        forecast = s.outlook.forecast
        account = replace(
            account,
            allowed=_told(forecast.allowed),
            price=float(f"{forecast.price:.3g}"),
            method=forecast.method,
        )
    return replace(status, budget=account)


def said(account: Account) -> str:
    """In words; empty where no price is known yet."""
    if not account.price:
        return ""
    return (
        f"budget: {account.spent} late returns of {account.allowed:g} allowed in four weeks, so "
        f"the next one costs {account.price:g} min of batch"
    )


def _told(allowed: float) -> float:
    """In two digits at most: it grows with each minute, and a status is not written for that."""
    return round(allowed, 1) if allowed < 10 else float(f"{allowed:.2g}")
