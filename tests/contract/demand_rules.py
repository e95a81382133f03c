"""Rules with nothing but demand in them, and a clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from idlewin.core.rule import Activity, Batch, Cards, QueueClass, Rule
from idlewin.core.target import Demand, Serving

TARGET = "Deployment ai/qwen3-8b"


@dataclass
class HandClock:
    """A clock that stands still until it is moved."""

    at: datetime = datetime(2026, 3, 2, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


def rule(*demand: Demand, activity: Activity | None = None, **more: Any) -> Rule:
    """A rule of one target with these demands."""
    return Rule(
        cards=Cards(
            resource="gpu.intel.com/xe", count=1, node_selector={"card": "b580"}, activity=activity
        ),
        serving=(
            Serving(
                api_version="apps/v1",
                kind="Deployment",
                namespace="ai",
                name="qwen3-8b",
                demand=demand or "CalendarOnly",
            ),
        ),
        batch=Batch(queues=(QueueClass(cluster_queue="short", max_runtime=timedelta(minutes=30)),)),
        **more,
    )
