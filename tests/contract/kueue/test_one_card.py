"""Serving and batch on one card: the scheduler gives it to one of them."""

from __future__ import annotations

from idlewin.core.pool import StopPolicy
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


@fact("12.1", "Serving that requests its card waits while batch has it, and has it as soon as the "
      "batch pod is gone.")  # fmt: skip
@fact("12.2", "A queue that opens while serving has the card admits its job, whose pod waits until "
      "serving is gone.")  # fmt: skip
def test_one_of_them_has_the_card(cluster: Cluster):
    cluster.make_queue("q")
    cluster.submit("job", "q", grace=2)
    cluster.until("work", lambda: cluster.runs("job"))
    cluster.serve("llm", 1)

    cluster.stays("serving waits", lambda: cluster.runs("job") and not cluster.serves("llm"))
    cluster.set_policy("q", DRAIN)
    cluster.until("serving", lambda: cluster.serves("llm"))
    assert not cluster.pods("job")
    cluster.set_policy("q", NONE)
    cluster.until("quota", lambda: cluster.admitted("job"))
    cluster.stays("batch waits", lambda: cluster.serves("llm") and not cluster.runs("job"))
    cluster.scale("llm", 0)

    cluster.until("work", lambda: cluster.runs("job"))


@fact("12.5", "A podFailurePolicy that ignores DisruptionTarget keeps such a Job: it gets a new "
      "pod, which runs when the card is free.")  # fmt: skip
@fact("12.3", "Serving of a higher PriorityClass ends a batch pod, with its grace; Kueue sees no "
      "eviction.")  # fmt: skip
def test_serving_of_a_higher_priority_takes_the_card(cluster: Cluster):
    cluster.make_queue("q")
    cluster.submit("job", "q", grace=3)
    cluster.until("work", lambda: cluster.runs("job"))
    cluster.serve("llm", 1, first=True)

    cluster.until("the preemption", lambda: cluster.leaving("job"))
    assert not cluster.serves("llm")
    cluster.until("serving", lambda: cluster.serves("llm"))
    assert cluster.admitted("job")
    assert not cluster.evicted("job")
    cluster.scale("llm", 0)

    cluster.until("work", lambda: cluster.runs("job"))


@fact("12.4", "A Job with backoffLimit 0 has failed when others end its pod: its work is lost.")
def test_a_job_without_retries_is_lost_with_its_pod(cluster: Cluster):
    cluster.make_queue("q")
    cluster.submit("job", "q", fragile=True)
    cluster.until("work", lambda: cluster.runs("job"))
    cluster.serve("llm", 1, first=True)

    cluster.until("serving", lambda: cluster.serves("llm"))
    cluster.until("the loss", lambda: cluster.work("job") is None)
