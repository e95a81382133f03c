"""What an open window lets in has the time that it needs."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, strategies as st

from idlewin.core.decide import decide
from idlewin.core.decision import SetStopPolicy
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.timing import SETTLE, START
from tests.builders import a_batch_pod, a_rule, an_outlook, away, gone

(SHORT, _) = a_rule().batch.queues
MINUTES = st.integers(1, 240).map(lambda n: timedelta(minutes=n))


def opened(left: timedelta) -> bool:
    """Whether the queue of work with a bound is open, with so much time left."""
    situation = away(Phase.HARVESTING, outlook=an_outlook(left), pool=gone(pods=(a_batch_pod(),)))
    writes = [a for a in decide(situation).actions if isinstance(a, SetStopPolicy)]
    return any(a.queue == SHORT.cluster_queue and a.policy is StopPolicy.NONE for a in writes)


@given(MINUTES)
def test_a_queue_is_open_only_while_the_longest_that_it_lets_in_would_end_in_time(left):
    assert SHORT.max_runtime is not None
    if left < START + SHORT.max_runtime + SHORT.grace + SETTLE:
        assert not opened(left)


def test_with_time_enough_it_is_open():
    assert opened(timedelta(hours=4))
