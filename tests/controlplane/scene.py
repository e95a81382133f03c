"""One rule's world on the real control plane: set up, looked at, and taken away again.

It does nothing of the controller's; who runs that is running.py's, and what happened in which
order is recorder.py's.
"""

from __future__ import annotations

import contextlib
from typing import Any

from tests.controlplane.recorder import Recorder, World
from tests.controlplane.setting import JOBS, KUEUE, Setting
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import GPU

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
RECORD = "idlewin.dev/record"
PATIENCE_S = 60
Json = dict[str, Any]


class Scene(Setting):
    """A setting, and what is to be seen in it; nothing is made before ``set_up``."""

    # -- the beginning

    def set_up(self, *, rule: bool = True, **spec: Any) -> None:
        """Queues, serving until it is ready, and the rule with changes of its spec."""
        self.make_queues()
        for target in self.targets:
            self.make_target(target)
        for target in self.targets:
            self.wait_ready(target)
        if rule:
            self.make_rule(**spec)

    # -- what is there

    def rule(self) -> Json:
        found: Json = self.api.get(self.rule_path)
        return found

    def status(self) -> Json:
        status: Json = self.rule().get("status") or {}
        return status

    def phase(self) -> str:
        return str(self.status().get("phase", ""))

    def reason(self) -> str:
        return str(self.status().get("reason", ""))

    def wait_phase(self, *phases: str, timeout: float = PATIENCE_S) -> Json:
        """The status, as soon as the rule is in one of the phases."""

        def there() -> Json | None:
            status = self.status()
            return status if status.get("phase") in phases else None

        try:
            found = wait_for(f"phase {' or '.join(phases)} of {self.name}", there, timeout)
        except TimeoutError as error:
            status = {k: v for k, v in self.status().items() if k != "conditions"}
            raise TimeoutError(f"{error}; the rule says {status}") from None
        assert found is not None
        return found

    def target(self, target: str = "") -> Json:
        found: Json = self.api.get(self.target_path(target or next(iter(self.targets))))
        return found

    def target_ready(self, target: str = "") -> bool:
        """Whether it is ready at the count that the scene gave it, with its pods up to date."""
        target = target or next(iter(self.targets))
        raw, wanted = self.target(target), self.targets[target]
        return bool(
            raw["spec"]["replicas"] == wanted
            and raw["status"].get("readyReplicas", 0) == wanted
            and raw["status"].get("observedGeneration") == raw["metadata"]["generation"]
        )

    def wait_ready(self, target: str = "") -> None:
        wait_for(f"ready {target or self.name}", lambda: self.target_ready(target), PATIENCE_S)

    def recorded(self, target: str = "") -> bool:
        """Whether a target carries our record."""
        return RECORD in (self.target(target)["metadata"].get("annotations") or {})

    def queue(self, queue: str = "") -> Json:
        found: Json = self.api.get(f"{KUEUE}/clusterqueues/{queue or next(iter(self.queues))}")
        return found

    def policy(self, queue: str = "") -> str:
        return str(self.queue(queue)["spec"].get("stopPolicy") or "None")

    def job(self, name: str) -> Json:
        found: Json = self.api.get(f"{JOBS}/{name}")
        return found

    def job_pods(self, name: str) -> list[Json]:
        return self.api.list(PODS, labelSelector=f"job-name={name}")

    def job_runs(self, name: str) -> bool:
        """Whether its pod is ready and stays."""
        return any(
            "deletionTimestamp" not in pod["metadata"]
            and any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in pod["status"].get("conditions") or ()
            )
            for pod in self.job_pods(name)
        )

    def serving_pods(self) -> list[Json]:
        pods = self.api.list(f"/api/v1/namespaces/{self.namespace}/pods")
        return [pod for pod in pods if self.serves(pod)]

    def serves(self, pod: Json) -> bool:
        """Whether a pod of our namespace is of one of the targets."""
        return pod["metadata"].get("labels", {}).get("app") in self.targets

    def holders(self) -> list[str]:
        """The pods on the node that hold a card, or are serving's."""
        return [
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.api.list("/api/v1/pods")
            if pod["spec"].get("nodeName") == self.node and (self.serves(pod) or _claims(pod))
        ]

    def events(self) -> list[Json]:
        """The Events on this rule, oldest first."""
        uid = self.rule()["metadata"]["uid"]
        found = [e for e in self.api.list(EVENTS) if e["regarding"].get("uid") == uid]
        return sorted(found, key=lambda event: event["eventTime"])

    def served(self) -> bool:
        """Whether all is as it was before any window: serving whole, no record, queues shut."""
        return (
            self.phase() == "Serving"
            and all(self.target_ready(target) for target in self.targets)
            and not any(self.recorded(target) for target in self.targets)
            and all(self.policy(queue) != "None" for queue in self.queues)
        )

    def one_user_of_the_cards(self, recorder: Recorder, after: int = 0) -> int:
        """How many writes were looked at; at each the cards had one user, and no queue was open
        beside serving. Raises AssertionError.
        """
        looked = 0
        for seen, world in recorder.worlds(after):
            serving, batch = self.on_cards(world)
            opened = [
                queue
                for queue in self.queues
                if (raw := world.get(("ClusterQueue", "", queue)))
                and raw["spec"].get("stopPolicy", "None") == "None"
            ]
            assert not (serving and opened), f"{opened} open beside {serving}, by {seen.key}"
            assert not (serving and batch), f"{batch} beside {serving}, by {seen.key}"
            looked += 1
        return looked

    def on_cards(self, world: World) -> tuple[list[str], list[str]]:
        """The pods of serving, and of others with a card of our node, in a recorded world."""
        serving, batch = [], []
        for (kind, namespace, name), pod in world.items():
            if kind != "Pod" or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            if namespace == self.namespace and self.serves(pod):
                serving.append(name)
            elif pod["spec"].get("nodeName") == self.node and _claims(pod):
                batch.append(name)
        return serving, batch

    # -- the end

    def clear(self) -> None:
        """Take all of it away; waits until the cards are free."""
        self._take(self.rule_path)
        for job in self.api.list(JOBS):
            if job["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") in self.queues:
                self._take(f"{JOBS}/{job['metadata']['name']}")
        for target in self.targets:
            self._take(self.target_path(target))
        for queue in self.queues:
            self._take(f"{KUEUE}/namespaces/default/localqueues/{queue}")
            self._take(f"{KUEUE}/clusterqueues/{queue}")
        self._take(f"{KUEUE}/cohorts/{self.name}")
        self._take(f"{KUEUE}/resourceflavors/{self.name}")
        wait_for("free cards", lambda: not self.holders(), PATIENCE_S)

    def _take(self, path: str) -> None:
        with contextlib.suppress(ApiError):
            self.api.patch(path, {"metadata": {"finalizers": None}})
        with contextlib.suppress(ApiError):
            self.api.delete(path)


def _claims(pod: Json) -> bool:
    return any(GPU in c["resources"].get("requests", {}) for c in pod["spec"]["containers"])
