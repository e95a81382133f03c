"""A decision as a Kubernetes Event (events.k8s.io/v1) on its rule."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from idlewin.core.decision import Decision
from idlewin.core.rule import API_VERSION, KIND

Json = dict[str, Any]

CONTROLLER = "idlewin.dev/controller"
#: Where Events about objects without a namespace live.
NAMESPACE = "default"
PATH = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
#: The API's limits.
_NOTE, _INSTANCE = 1024, 128


def event_of(decision: Decision, uid: str, instance: str) -> Json:
    """The Event that tells a decision; equal decisions at one instant make one Event."""
    sentence = decision.status.message or decision.reason.meaning
    note = f"{decision.before} to {decision.after}: {sentence}"
    if decision.alarms:
        note = " ".join((note, *decision.alarms))
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{decision.rule}.{int(decision.at.timestamp() * 1e6):x}",
            "namespace": NAMESPACE,
        },
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": decision.rule,
            "uid": uid,
        },
        "eventTime": micro(decision.at),
        "type": "Warning" if decision.alarms else "Normal",
        "reason": decision.reason.value,
        "action": decision.after.value,
        "note": note if len(note) <= _NOTE else f"{note[: _NOTE - 1]}…",
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:_INSTANCE],
    }


def micro(at: datetime) -> str:
    """An instant as the API's MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
