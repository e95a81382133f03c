"""Many pools under one controller that goes by the calendar alone, each a case of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene

#: No window opens again while a test looks.
STAYS = {"window": {"minServing": "30m"}}
#: Nobody asks for demand: a Prometheus that is not there does for CalendarOnly.
NO_PROMETHEUS = "http://127.0.0.1:1"


@dataclass(slots=True)
class Pools:
    """All pools, and what happened to them."""

    recorder: Recorder
    running: Running
    scenes: dict[str, Scene] = field(default_factory=dict)

    def back(self, case: str) -> Scene:
        """The scene once its pool is given back, whatever its rule is now."""
        scene = self.scenes[case]
        scene.wait_phase("Serving")
        for target in scene.targets:
            scene.wait_ready(target)
            assert not scene.recorded(target)
        for queue in scene.queues:
            assert scene.policy(queue) != "None"
        return scene

    def reason(self, case: str) -> str:
        """Why its first window was given back."""
        moves = self.running.moves(case)
        return next(why for _, after, why in moves if after == "Reclaiming")
