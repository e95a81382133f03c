"""What deploy/base grants, verb by verb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RBAC = Path(__file__).parents[1] / "deploy/base/rbac.yaml"
Json = dict[str, Any]


class Verb(NamedTuple):
    """One thing that an account may do."""

    group: str
    resource: str
    """With its subresource, if it is one: pods/eviction."""
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' * bool(self.group)}{self.group}"


def objects() -> list[Json]:
    """The objects of rbac.yaml."""
    return list(yaml.safe_load_all(RBAC.read_text()))


def accounts(things: Iterable[Json]) -> list[str]:
    """The names of the ServiceAccounts."""
    return [one["metadata"]["name"] for one in things if one["kind"] == "ServiceAccount"]


def granted(things: Iterable[Json], account: str) -> set[Verb]:
    """All that an account is bound to."""
    known = list(things)
    roles = {(one["kind"], one["metadata"]["name"]): one for one in known}
    return {
        verb
        for one in known
        if one["kind"].endswith("RoleBinding")
        if account in {subject["name"] for subject in one["subjects"]}
        for verb in verbs(roles[one["roleRef"]["kind"], one["roleRef"]["name"]])
    }


def verbs(role: Json) -> Iterator[Verb]:
    """All that a role grants."""
    return (
        Verb(group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def without(role: Json, taken: Verb) -> Json:
    """The role with one verb less, and all else of it."""
    rules = [
        {"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]}
        for one in verbs(role)
        if one != taken
    ]
    return {**role, "rules": rules}
