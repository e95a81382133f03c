"""Alertmanager's webhook, version 4: which claims its message asks for. No HTTP, no writing.

A firing alert is a claim on each rule that it names. A resolved one says nothing: it neither
opens a window nor shortens a claim, which ends by itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from idlewin.adapters.claims import claim_length

#: The label or annotation that names the rules, with commas between; a label wins.
RULE = "idlewin_rule"
#: The label or annotation that says how long a claim lasts from each notification on.
FOR = "idlewin_for"
VERSION = "4"
#: Each claim is a write; a message that names more is none that people have set up.
MOST_RULES = 200


def wanted_claims(message: Any) -> tuple[dict[str, timedelta], tuple[str, ...]]:
    """The longest claim for each rule that firing alerts name, and what was passed over, and why.

    Raises ValueError where the message is no such message, or asks for nothing that is
    understood: sending it again would not help.
    """
    if not isinstance(message, dict) or not isinstance(message.get("alerts"), list):
        raise ValueError(  # noqa: TRY004 - the sender's mistake, whatever is wrong with it
            "this is no message of Alertmanager: it has no list of 'alerts'"
        )
    if message.get("version") != VERSION:
        raise ValueError(
            f"the message's version is {message.get('version')!r}, understood is {VERSION!r}"
        )
    wanted: dict[str, timedelta] = {}
    passed: list[str] = []
    mistakes = 0
    for alert in message["alerts"]:
        try:
            claims = _of_alert(alert)
        except ValueError as error:
            mistakes += 1
            passed.append(str(error))
            continue
        if not claims:
            passed.append(f"alert {_name(alert)} is resolved: nothing to claim")
        for rule, length in claims.items():
            wanted[rule] = max(length, wanted.get(rule, length))
    if len(wanted) > MOST_RULES:
        raise ValueError(
            f"the message names {len(wanted)} rules; at most {MOST_RULES} are claimed at once"
        )
    if mistakes and not wanted:
        raise ValueError("; ".join(passed))
    if cut := message.get("truncatedAlerts"):
        passed.append(f"{cut} alerts were cut off by max_alerts of the receiver")
    return wanted, tuple(passed)


def _of_alert(alert: Any) -> dict[str, timedelta]:
    if not isinstance(alert, dict) or alert.get("status") not in ("firing", "resolved"):
        raise ValueError("an alert's status is neither 'firing' nor 'resolved'")
    if alert["status"] == "resolved":
        return {}
    rules = [name.strip() for name in (_text(alert, RULE) or "").split(",") if name.strip()]
    if not rules:
        raise ValueError(f"alert {_name(alert)} names no rule; give it the label {RULE}: RULE")
    try:
        length = claim_length(_text(alert, FOR))
    except ValueError as error:
        raise ValueError(f"alert {_name(alert)}, {FOR}: {error}") from None
    return dict.fromkeys(rules, length)


def _text(alert: dict[str, Any], key: str) -> str | None:
    for place in ("labels", "annotations"):
        values = alert.get(place)
        if isinstance(values, dict) and isinstance(values.get(key), str):
            return str(values[key])
    return None


def _name(alert: dict[str, Any]) -> str:
    return repr(_text(alert, "alertname") or "without a name")
