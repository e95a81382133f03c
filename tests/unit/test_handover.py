"""What a handover's dry run asks for is what the handover will write."""

from __future__ import annotations

from idlewin.core.decide import decide
from idlewin.core.decision import ScaleToZero
from idlewin.core.follow import LOST
from idlewin.core.plan import handover
from tests.builders import a_pool, a_queue, a_situation, a_workload, with_rule


def test_a_rule_made_anew_asks_above_the_epoch_that_its_queues_carry():
    queues = (a_queue(epoch=41, workloads=(a_workload(),)), a_queue("resumable"))
    situation = with_rule(
        a_situation(pool=a_pool(queues=queues)),
        status=None,
    )

    asked = {action.epoch for action in handover(situation)}
    (lowered,) = [a for a in decide(situation).actions if isinstance(a, ScaleToZero)]

    assert asked == {lowered.epoch} == {41 + LOST}
