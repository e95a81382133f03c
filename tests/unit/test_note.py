"""What is owed to LocalQueues: their owners' last word, whoever closes them in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decision import StopLocalQueue
from idlewin.core.note import owed_by
from idlewin.core.pool import StopPolicy
from idlewin.core.status import Owed, OwedQueue
from tests.builders import HOUR, NOW, a_queue, a_situation, a_status


@pytest.mark.parametrize(
    ("seen", "writer", "was", "anew"),
    [
        (StopPolicy.HOLD, "kubectl", "Hold", True),
        (StopPolicy.HOLD, "idlewin", "None", False),
        (StopPolicy.HOLD, "", "None", False),
        (StopPolicy.NONE, "kubectl", "None", True),
        (StopPolicy.NONE, "", "None", True),
    ],
)
def test_what_a_person_makes_of_a_local_queue_that_we_closed_is_what_comes_back(
    seen, writer, was, anew
):
    owed = OwedQueue(namespace="batch", name="lq-short", uid="l-short", cluster_queue="short",
                     was="None", wrote="Hold", at=NOW - HOUR)  # fmt: skip
    local = replace(a_queue().local_queues[0], stop_policy=seen, stop_writer=writer)
    situation = a_situation(status=a_status(owed=Owed(local_queues=(owed,))))

    (after,) = owed_by(
        situation, (StopLocalQueue(local, "short", StopPolicy.HOLD_AND_DRAIN, 1),)
    ).owed.local_queues

    at = NOW if anew else owed.at
    assert (after.was, after.wrote, after.at) == (was, "HoldAndDrain", at)
