"""When giving back has to start."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from idlewin.core import timing
from idlewin.core.status import LeadTimes
from tests.builders import QWEN, a_rule, a_status


def test_the_lead_time_is_long_enough_for_nine_starts_of_ten():
    # llm-d/llm-d-autoscaling #1071, kserve/kserve #1805: model servers take 2 to 8 minutes.
    starts = tuple(range(120, 480, 18))
    rule = a_rule(serving=(replace(a_rule().serving[0], lead_time="Auto"),))
    status = a_status(lead_times=(LeadTimes(target=str(QWEN), seconds=starts),))

    lead = timing.lead_time(rule, status) / timedelta(seconds=1)

    assert sum(start <= lead for start in starts) >= 0.9 * len(starts)
    assert lead < max(starts) + 1
