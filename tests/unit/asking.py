"""The HTTP endpoint on a free port, with rules behind it as the API server keeps them."""

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime

from idlewin.adapters.claims import Claims
from idlewin.adapters.http import Backing, Endpoint, application
from idlewin.core.decision import Verdict
from idlewin.core.pool import WAKE_UNTIL, RuleObject
from idlewin.ports import LookError

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Store:
    """Rules with resource versions, as the API server keeps them."""

    def __init__(self, *names):
        self.claims = dict.fromkeys(names)
        self.version = 1
        self.down = False
        self.refuses = ""
        self.conflicts = 0

    def stored_rule(self, name):
        if self.down:
            raise LookError("connection refused")
        if name not in self.claims:
            return None
        return RuleObject(
            name=name, uid="u", generation=1, resource_version=str(self.version), rule=None,
            wake_until=self.claims[name],
        )  # fmt: skip

    def annotate_rule(self, name, annotations, resource_version):
        if self.refuses:
            return Verdict.REFUSED, self.refuses
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
        if resource_version != str(self.version):
            return Verdict.CONFLICT, "the object has been modified"
        self.claims[name] = datetime.fromisoformat(annotations[WAKE_UNTIL])
        return Verdict.DONE, ""


class Noon:
    def now(self):
        return NOW


class Asked:
    """The endpoint on a free port, and what stands behind it."""

    def __init__(self, token=""):
        self.fresh()
        backing = Backing(
            trouble=lambda: self.trouble,
            missing=lambda: self.missing,
            metrics=lambda: (b"idlewin_up 1\n", "text/plain; version=1.0.0"),
            claim=lambda rule, length: Claims(self.store, Noon()).claim(rule, length),
            token=token,
        )
        self.endpoint = Endpoint(application(backing), "127.0.0.1", 0)
        self.endpoint.start()

    def fresh(self):
        self.store = Store("b580", "a770")
        self.trouble = self.missing = ()

    def __call__(self, path, body=None, method=None, headers=()):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.endpoint.port}{path}"
        request = urllib.request.Request(url, body, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path, body=b"", headers=()):
        status, text = self(path, body, "POST", headers)
        return status, json.loads(text)

    def alerts(self, *alerts, **more):
        message = {"version": "4", "groupKey": "{}", "receiver": "idlewin", "alerts": alerts}
        return self.post("/alertmanager", message | more)
