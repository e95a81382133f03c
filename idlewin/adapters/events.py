"""A decision as Kubernetes Events (events.k8s.io/v1) on its rule, and on serving."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from idlewin.core.decision import Decision
from idlewin.core.phase import Phase
from idlewin.core.rule import API_VERSION, KIND
from idlewin.core.text import format_instant

Json = dict[str, Any]

CONTROLLER = "idlewin.dev/controller"
#: Where Events about objects without a namespace live.
NAMESPACE = "default"
#: The API's limits.
_NOTE, _INSTANCE = 1024, 128


def events_of(decision: Decision, uid: str, instance: str) -> list[Json]:
    """The Events that tell a decision: on its rule, and on serving where it leaves or returns."""
    told = [_event(decision, _rule_of(decision, uid), _note_of(decision), instance)]
    window = decision.status.window
    for target in window.targets if window and decision.changes_phase else ():
        note = ""
        if decision.after is Phase.YIELDING and target.replicas:
            until = decision.status.until
            note = (
                f"rule {decision.rule} scales it from {target.replicas} to 0 and lends its cards "
                f"to batch{f' until about {format_instant(until)}' if until else ''}; "
                f"'idlewin wake {decision.rule}' has it back"
            )
        elif decision.after is Phase.RESTORING and target.lowered:
            note = f"rule {decision.rule} gives it back, as it was: {target.replicas} replicas"
        if note:
            regarding = {
                "apiVersion": target.ref.api_version,
                "kind": target.ref.kind,
                "namespace": target.ref.namespace,
                "name": target.ref.name,
                "uid": target.uid,
            }
            told.append(_event(decision, regarding, note, instance))
    return told


def _rule_of(decision: Decision, uid: str) -> Json:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": decision.rule, "uid": uid}


def _note_of(decision: Decision) -> str:
    way = f"{decision.before} to {decision.after}" if decision.changes_phase else decision.after
    parts = [f"{way}: {decision.status.message or decision.reason.meaning}"]
    if decision.changes_phase and len(decision.checks) == 1:
        (seen,) = decision.checks
        parts.append(f"Seen: {seen.name} {seen.observed}.")
    return " ".join((*parts, *decision.alarms))


def _event(decision: Decision, regarding: Json, note: str, instance: str) -> Json:
    """Equal decisions at one instant make one Event."""
    namespace = regarding.get("namespace", NAMESPACE)
    name = decision.rule if "namespace" not in regarding else f"{decision.rule}.{regarding['name']}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name}.{int(decision.at.timestamp() * 1e6):x}",
            "namespace": namespace,
        },
        "regarding": regarding,
        "eventTime": micro(decision.at),
        "type": "Warning" if decision.alarms else "Normal",
        "reason": decision.reason.value,
        "action": decision.after.value,
        "note": note if len(note) <= _NOTE else f"{note[: _NOTE - 1]}…",
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:_INSTANCE],
    }


def path_of(event: Json) -> str:
    """Where an Event is made."""
    return f"/apis/events.k8s.io/v1/namespaces/{event['metadata']['namespace']}/events"


def micro(at: datetime) -> str:
    """An instant as the API's MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
