"""A plane as files of manifests: one a kind, in a stable order, with why each object is so."""

from __future__ import annotations

from collections.abc import Iterator

from idlewin.draft.yamltext import comment, on_a_line
from idlewin.plane import kueue, policies, rules
from idlewin.plane.model import Plane
from idlewin.plane.objects import Object
from idlewin.yamlfile import to_yaml

#: The file by which kustomize finds the others.
KUSTOMIZATION = "kustomization.yaml"
#: How every file begins; by it a later rendering knows its own.
MARK = "# Rendered by idlewin plane render"


def objects(plane: Plane) -> list[Object]:
    """All objects of a plane, kind by kind."""
    return [*kueue.objects(plane), *policies.objects(plane), *rules.objects(plane)]


def files(plane: Plane) -> dict[str, str]:
    """All files, by name, in the order in which they are applied."""
    texts: dict[str, list[str]] = {}
    for one in objects(plane):
        texts.setdefault(one.file, []).append(_text(one))
    whole = {name: _head(plane) + "---\n".join(parts) for name, parts in texts.items()}
    return {**whole, KUSTOMIZATION: _head(plane) + _kustomization(plane, list(whole))}


def _head(plane: Plane) -> str:
    return f"{MARK} from {on_a_line(plane.source)}; edit that, and render again.\n"


def _text(one: Object) -> str:
    lines = "".join(f"{line}\n" for line in comment(one.why))
    return lines + to_yaml(one.body)


def _kustomization(plane: Plane, names: list[str]) -> str:
    lines = [line for part in _told(plane) for line in comment(part)]
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
    }
    return "".join(f"{line}\n" for line in lines) + to_yaml(body)


def _told(plane: Plane) -> Iterator[str]:
    for machine in plane.written.outside:
        yield (
            f"Outside: {machine.name} ({machine.model}, {machine.memory}) is no node, and nothing "
            f"here is made of it: {machine.why.rstrip('.')}."
        )


def to_close(plane: Plane) -> list[str]:
    """The ClusterQueues that rules open and close: they are to be closed before the first Job."""
    return [queue.name for queue in plane.queues if plane.rule(queue.cards) is not None]
