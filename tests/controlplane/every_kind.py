"""One pool whose serving is of every kind that there is: a target each, a card each."""

from __future__ import annotations

from typing import Any

from tests.controlplane.scene import Scene
from tests.controlplane.switched import Inference, Scaled
from tests.labs.kubelab.controlplane import ControlPlane

Json = dict[str, Any]


class Stateful(Scene):
    """Serving by StatefulSets."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kind = "StatefulSet"

    def deployment(self, target: str) -> Json:
        body = super().deployment(target)
        spec = {key: value for key, value in body["spec"].items() if key != "strategy"}
        return {**body, "kind": self.kind, "spec": {**spec, "serviceName": target}}

    def workload_path(self, target: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{target}"


class Clocked(Scaled):
    """Serving that KEDA holds at one replica by the clock: no Prometheus is asked."""

    def asked(self) -> Json:
        always = {"timezone": "Etc/UTC", "start": "0 0 * * *", "end": "59 23 * * *"}
        return {"type": "cron", "metadata": {**always, "desiredReplicas": "1"}}


class EveryKind(Scene):
    """The rule and its queue; the parts make and look at a target each."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        kinds = {"plain": Scene, "stateful": Stateful, "inference": Inference, "clocked": Clocked}
        self.parts = {
            f"{name}-{part}": kind(plane=plane, name=f"{name}-{part}", demand="CalendarOnly")
            for part, kind in kinds.items()
        }
        super().__init__(
            plane=plane,
            name=name,
            cards=len(kinds),
            targets=dict.fromkeys(self.parts, 1),
            demand="CalendarOnly",
        )

    def spec(self, **changes: Any) -> Json:
        serving = [one for part in self.parts.values() for one in part.spec()["serving"]]
        return super().spec(**{"serving": serving, **changes})

    def make_target(self, target: str) -> None:
        self.parts[target].make_target(target)

    def target_path(self, target: str) -> str:
        return self.parts[target].target_path(target)

    def workload_path(self, target: str) -> str:
        return self.parts[target].workload_path(target)

    def target_ready(self, target: str = "") -> bool:
        return self.parts[target].target_ready(target)

    def serves(self, pod: Json) -> bool:
        return any(part.serves(pod) for part in self.parts.values())
