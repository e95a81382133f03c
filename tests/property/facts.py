"""Single facts of a situation, to be put together: what a test changes, in one word each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from idlewin.core.lint import Fault, Refusal
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, OwedQueue
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_batch_pod,
    with_rule,
)

SECOND = timedelta(seconds=1)
Change = Callable[[Situation], Situation]
OWED = Owed(
    local_queues=(
        OwedQueue(
            namespace="batch", name="lq-short", uid="l-short", cluster_queue="short", was="None",
            wrote="Hold", at=NOW - HOUR,
        ),
    )
)  # fmt: skip


def look(**changes: Any) -> Change:
    return lambda s: replace(s, **changes)


def stored(**changes: Any) -> Change:
    return lambda s: with_rule(s, **changes)


def status(**changes: Any) -> Change:
    return lambda s: with_rule(s, status=replace(s.status, **changes))


def in_window(**changes: Any) -> Change:
    return lambda s: with_rule(s, status=replace(s.status, window=replace(s.window, **changes)))


def spec(**changes: Any) -> Change:
    return lambda s: with_rule(s, rule=replace(s.rule, **changes))


def policy(**changes: Any) -> Change:
    return lambda s: with_rule(s, rule=replace(s.rule, window=replace(s.rule.window, **changes)))


def pool(**changes: Any) -> Change:
    return lambda s: replace(s, pool=replace(s.pool, **changes))


def target(**changes: Any) -> Change:
    return lambda s: pool(targets=(replace(s.pool.targets[0], **changes),))(s)


def queue(**changes: Any) -> Change:
    """One of the queues, changed."""
    return lambda s: pool(queues=(replace(s.pool.queues[0], **changes), *s.pool.queues[1:]))(s)


def pod(one: Any) -> Change:
    return lambda s: pool(pods=(*s.pool.pods, one))(s)


PAUSED = spec(paused=True)
CLAIM = stored(wake_until=NOW + MINUTE)
OTHER = pod(a_batch_pod(name="z", uid="z", role=Role.OTHER, owner="?"))
BATCH = pod(a_batch_pod())
THEIRS: dict[str, Any] = {"stop_policy": StopPolicy.HOLD_AND_DRAIN, "stop_writer": "kubectl"}
THEIRS |= {"left": StopPolicy.HOLD, "stop_written_at": NOW - HOUR}
NOT_ADOPTED = look(refusals=(Refusal(Fault.NOT_ADOPTED, "adopt it"),))


def each(facts: dict[str, Change]) -> Any:
    return pytest.mark.parametrize("fact", list(facts.values()), ids=list(facts))
