"""What is explored, by name."""

from __future__ import annotations

from tests.exhausted.furnish import Scene

ALL = ("scale up", "scale down", "open", "close", "kueue", "prune", "lose")


def _scene(name: str, about: str, leaders: int, faults: int, **how) -> Scene:
    how.setdefault("queues", ("contract",))
    return Scene(name, about, leaders=leaders, faults=faults, kinds=ALL, **how)


_FOUND = (
    _scene("one-device", "device node, contract", 1, 2, claims=(0,)),
    _scene("one-claimed", "claimed, contract", 1, 2),
    _scene("one-device-wait", "device node, Wait", 1, 2, claims=(0,), queues=("wait",)),
    _scene("one-claimed-wait", "claimed, Wait", 1, 2, queues=("wait",)),
    _scene("one-odd", "claimed, contract queue whose work may have none", 1, 1, queues=("odd",)),
    _scene("two-device", "device node, contract", 2, 1, claims=(0,)),
    _scene("two-claimed", "claimed, contract", 2, 1),
    _scene("two-device-wait", "device node, Wait", 2, 1, claims=(0,), queues=("wait",)),
    _scene("two-claimed-wait", "claimed, Wait", 2, 1, queues=("wait",)),
    _scene("two-slow", "device node, contract, slow reads", 2, 0, claims=(0,), slow=True),
    _scene("both", "two targets, a contract and a Wait queue, a near forecast", 1, 1,
           claims=(0, 1), queues=("contract", "wait"), fit=True),
    _scene("pending", "claimed, Wait, pods of serving that wait for cards", 1, 1,
           queues=("wait",), pending=True),
)  # fmt: skip
SCENES = {scene.name: scene for scene in _FOUND}
