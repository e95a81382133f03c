"""Pools: which nodes' cards one rule has to own together, how they are selected, what it is called.

Cards of one resource on one node are a pool, and nodes that a target has pods on are one together:
a target has one rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from idlewin.core.target import Ref
from idlewin.draft.facts import Facts, Node, Owned, Role, Tenant, Wanted

HOSTNAME = "kubernetes.io/hostname"
#: The label to put on nodes that none of theirs tells from the others.
OWN_LABEL = "idlewin.dev/pool"
#: What gives at cards of a resource's vendor beside a request.
_DEVICES = {
    "gpu.intel.com": ("/dev/dri",),
    "npu.intel.com": ("/dev/accel",),
    "amd.com": ("/dev/kfd", "/dev/dri"),
    "nvidia.com": ("/dev/nvidia",),
}
_UNFIT = re.compile(r"[^a-z0-9-]+")
_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The cards of one rule that is to be."""

    name: str
    resource: str
    nodes: tuple[Node, ...]
    selector: Mapping[str, str]
    to_label: bool
    """Whether the nodes have to be given the selector's label first."""
    tenants: tuple[Tenant, ...]
    """Whoever holds its cards, or waits for some that only it has."""
    devices: tuple[str, ...] = ()
    """Device nodes by which tenants without a request are on its cards."""

    @property
    def count(self) -> int:
        """How many cards it has."""
        return sum(node.cards[self.resource] for node in self.nodes)

    @property
    def where(self) -> str:
        """Its nodes, in a sentence."""
        return ", ".join(node.name for node in self.nodes)

    def of(self, role: Role) -> tuple[Tenant, ...]:
        """Its tenants of a role."""
        return tuple(one for one in self.tenants if one.role is role)

    def holds(self, tenant: Tenant) -> int:
        """Cards of it that a tenant's pods hold now."""
        return sum(tenant.held.get(n.name, {}).get(self.resource, 0) for n in self.nodes)


def every_pool(facts: Facts, wanted: Wanted) -> Iterator[Pool]:
    """The pools of all cards, without a name yet, by resource and node."""
    for resource in sorted({r for node in facts.nodes for r in node.cards if wanted.takes(r)}):
        having = [node for node in facts.nodes if node.cards.get(resource, 0) > 0]
        homes = {one.ref: _homes(one, resource, having) for one in facts.tenants}
        for group in _groups(resource, having, facts.tenants):
            names = {node.name for node in group}
            there = [one for one in facts.tenants if _is_there(one, names, resource)]
            there += [one for one in facts.tenants if homes[one.ref] == names]
            yield _pool(resource, group, there, facts.nodes)


def named_pools(every: Iterable[Pool], facts: Facts, wanted: Wanted) -> list[Pool]:
    """Those of them that are wanted and that no rule has a part of, with names."""
    free = [one for one in every if _of_interest(one, wanted) and not any(owners(facts, one))]
    return list(_named(free, {rule.name for rule in facts.rules}))


def owners(facts: Facts, pool: Pool) -> list[Owned | None]:
    """For each node of a pool the rule that has its cards already."""
    return [owner_of(facts, pool.resource, node) for node in pool.nodes]


def owner_of(facts: Facts, resource: str, node: Node) -> Owned | None:
    """The rule that has a node's cards already."""
    return next(
        (
            rule
            for rule in facts.rules
            if rule.resource == resource and rule.node_selector.items() <= node.labels.items()
        ),
        None,
    )


def _of_interest(pool: Pool, wanted: Wanted) -> bool:
    spaces = {one.ref.namespace for one in pool.of(Role.SERVING)}
    nodes = {node.name for node in pool.nodes}
    return (not wanted.namespaces or bool(spaces & wanted.namespaces)) and (
        not wanted.nodes or bool(nodes & wanted.nodes)
    )


def _groups(resource: str, having: list[Node], tenants: Iterable[Tenant]) -> list[list[Node]]:
    group = {node.name: {node.name} for node in having}
    for tenant in tenants:
        if tenant.role is not Role.SERVING:
            continue
        named = {n for n, held in tenant.held.items() if held.get(resource) and n in group}
        named |= {n for n in tenant.devices if n in group and opened(tenant, n, resource)}
        together = set().union(*(group[name] for name in named))
        for name in together:
            group[name] = together
    firsts = {min(names): names for names in group.values()}
    return [[node for node in having if node.name in firsts[first]] for first in sorted(firsts)]


def _pool(resource: str, group: list[Node], tenants: list[Tenant], nodes: Iterable[Node]) -> Pool:
    selector, to_label = _selector(group, [node for node in nodes if resource in node.cards])
    opens = {path for one in tenants for n in group for path in opened(one, n.name, resource)}
    return Pool(
        name="",
        resource=resource,
        nodes=tuple(group),
        selector=selector,
        to_label=to_label,
        tenants=tuple(tenants),
        devices=tuple(sorted(opens)),
    )


def _is_there(tenant: Tenant, nodes: set[str], resource: str) -> bool:
    return any(held.get(resource) for name, held in tenant.held.items() if name in nodes) or any(
        opened(tenant, name, resource) for name in tenant.devices if name in nodes
    )


def _homes(tenant: Tenant, resource: str, having: list[Node]) -> set[str]:
    """Where one that has no pod on any card would get one: all nodes that would do."""
    if not tenant.claims.get(resource) or any(one.get(resource) for one in tenant.held.values()):
        return set()
    return {node.name for node in having if tenant.selects.items() <= node.labels.items()}


def opened(tenant: Tenant, node: str, resource: str) -> list[str]:
    """The device nodes of a resource's cards that a tenant's pods mount there."""
    known, found = _DEVICES.get(resource.partition("/")[0], ()), []
    for path in tenant.devices.get(node, ()):
        for device in known:
            # All of NVIDIA's are files of their own; Intel's are in one folder.
            if path == device or path.startswith(f"{device}/"):
                found.append(device)
            elif device == "/dev/nvidia" and path.startswith(device):
                found.append(path)
    return found


# -- how they are selected


def _selector(group: list[Node], having: list[Node]) -> tuple[dict[str, str], bool]:
    """Labels that these nodes have, and no other with the resource; and whether they lack it."""
    others = [node for node in having if node not in group]
    common = set(group[0].labels.items()).intersection(*(node.labels.items() for node in group))
    fit = [
        (key, value)
        for key, value in sorted(common, key=lambda one: (_rank(one[0]), one))
        if not any(node.labels.get(key) == value for node in others)
    ]
    if len(group) == 1:
        fit = [one for one in fit if one[0] == HOSTNAME] or fit
    if fit and (len(group) == 1 or _tells(fit[0][0])):
        return dict([fit[0]]), False
    return {OWN_LABEL: _label(group)}, True


#: Names of labels that say which pool a node is of, and do not change by themselves.
_POOL_LABEL = re.compile(r"pool|nodegroup|product|model|accelerator|node-role", re.IGNORECASE)


def _tells(key: str) -> bool:
    """Whether a label is somebody's word for these nodes: a person's own has no domain."""
    return "/" not in key or bool(_POOL_LABEL.search(key))


def _rank(key: str) -> int:
    return 0 if key == OWN_LABEL else 1 if _tells(key) else 2


def _label(group: list[Node]) -> str:
    return _fit(_common(node.name for node in group) or group[0].name)


# -- what they are called


def _named(found: list[Pool], taken: set[str]) -> Iterator[Pool]:
    for pool in found:
        base = _base(pool)
        alike = [one for one in found if one is not pool and _base(one) == base]
        if alike:
            # Cards of two kinds in one box.
            base = _fit(f"{base}-{pool.resource.partition('/')[2]}")
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        yield replace(pool, name=name)


def _base(pool: Pool) -> str:
    if len(pool.nodes) == 1:
        return _fit(pool.nodes[0].name.partition(".")[0])
    return _fit(_common(node.name for node in pool.nodes) or pool.resource.partition("/")[2])


def _common(names: Iterable[str]) -> str:
    """What names begin with in common, without a number's first digits."""
    told = list(names)
    size = next(
        (at for at, letters in enumerate(zip(*told, strict=False)) if len(set(letters)) > 1),
        min(map(len, told)),
    )
    return re.sub(r"[-.\d]+$", "", told[0][:size])


def _fit(text: str) -> str:
    """A text as a name by RFC 1123."""
    return _UNFIT.sub("-", text.lower())[:_NAME_LIMIT].strip("-") or "cards"


def nowhere(every: Iterable[Pool], facts: Facts, wanted: Wanted) -> Iterator[Tenant]:
    """Who asks for cards and has none, where it does not show which would be its."""
    told: set[Ref] = {one.ref for pool in every for one in pool.tenants}
    for one in facts.tenants:
        asks = any(wanted.takes(resource) for resource in one.claims)
        if one.ref not in told and one.role is Role.SERVING and asks and not one.held:
            yield one
