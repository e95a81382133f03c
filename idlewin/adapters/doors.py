"""What leads to a target: its Services, the routes to them, and what its programs are told.

Pure functions over raw objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from idlewin.draft.facts import Service

Json = dict[str, Any]


def leads(service: Json, pods: Iterable[dict[str, str]]) -> bool:
    """Whether a Service selects one of some pods, by their labels."""
    selector = (service.get("spec") or {}).get("selector") or {}
    return bool(selector) and any(selector.items() <= labels.items() for labels in pods)


def service_of(raw: Json) -> Service:
    """A Service with its ports."""
    ports = raw["spec"].get("ports") or ()
    return Service(
        name=raw["metadata"]["name"],
        ports=tuple((str(one.get("name", "")), int(one["port"])) for one in ports),
    )


def names_in(part: object) -> Iterator[str]:
    """Whatever is called ``name`` in a part: of a route, its Services among others."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("name", "service", "serviceName") and isinstance(value, str):
                yield value
            else:
                yield from names_in(value)
    elif isinstance(part, list):
        for one in part:
            yield from names_in(one)


def words(programs: Iterable[Json]) -> Iterator[str]:
    """Each word of the commands and arguments of containers."""
    for one in programs:
        for kind in ("command", "args"):
            for text in one.get(kind) or ():
                yield from str(text).split()
