"""Which ClusterQueues fill a pool, and the manifest of one where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from idlewin.core.text import format_duration
from idlewin.draft.facts import Facts, Queue, listed
from idlewin.draft.pools import Pool
from idlewin.draft.yamltext import flow, flow_list, scalar

#: Where the LocalQueue of a manifest is.
NAMESPACE = "batch"
#: What a queue's work may take at most where nothing of it is known.
_GUESS = "30m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A queue as the rule names it."""

    name: str
    fields: str
    """Its class, as YAML inside of braces."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What fills a pool."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    """Why queues that have these cards are not among them."""
    manifest: tuple[str, ...] = ()
    """YAML of a queue that would do; empty: there is one."""


def filling(pool: Pool, facts: Facts, taken: set[str]) -> Filling:
    """The queues of a pool; ``taken`` has those of pools before it, and gets its own."""
    entries, notes = [], []
    for queue in facts.queues:
        covering = [f for f in queue.flavors.get(pool.resource, ()) if _covers(f, pool, facts)]
        if not covering:
            continue
        if queue.rule or queue.name in taken:
            owner = f"rule {queue.rule}" if queue.rule else "a rule above"
            notes.append(
                f"ClusterQueue {queue.name} has quota for these cards too, and is {owner}'s: a "
                "queue has one rule"
            )
            continue
        entries.append(_entry(queue, _beyond(covering, pool, facts)))
    taken |= {entry.name for entry in entries}
    if entries:
        return Filling(entries=tuple(entries), notes=tuple(notes))
    name = _free(f"{pool.name}-batch", {queue.name for queue in facts.queues} | taken)
    taken.add(name)
    return Filling(
        entries=(_guessed(name, ()),),
        notes=tuple(notes),
        manifest=tuple(_manifest(name, pool, facts)),
    )


def _covers(flavor: str, pool: Pool, facts: Facts) -> bool:
    """Whether a flavor may put work on a node of the pool; one that is not seen might."""
    labels = facts.flavors.get(flavor, {})
    return any(labels.items() <= node.labels.items() for node in pool.nodes)


def _beyond(flavors: Iterable[str], pool: Pool, facts: Facts) -> str:
    """What is to be said of flavors whose nodes are not those of the pool."""
    ours = {node.name for node in pool.nodes}
    if "resourceflavors" in facts.unseen:
        return "TODO ResourceFlavors could not be listed: its nodes have to be those of this rule"
    for flavor in flavors:
        labels = facts.flavors.get(flavor, {})
        theirs = {
            node.name
            for node in facts.nodes
            if node.cards.get(pool.resource) and labels.items() <= node.labels.items()
        }
        if theirs != ours:
            where = listed(sorted(theirs - ours or ours - theirs))
            but = "also has" if theirs - ours else "leaves out"
            return (
                f"its ResourceFlavor {flavor} {but} {where}: give it the nodeLabels "
                f"{flow(pool.selector)}, so that its work comes to the cards of this rule"
            )
    return ""


def _entry(queue: Queue, doubt: str) -> Entry:
    doubts, looked_at = (doubt,) if doubt else (), f"({queue.works} looked at)"
    named = f"clusterQueue: {scalar(queue.name)}"
    if queue.checkpoint:
        return Entry(
            name=queue.name,
            fields=f"{{{named}, contract: Checkpoint}}",
            notes=(f"each Workload so far has the contract {looked_at}", *doubts),
        )
    if queue.longest:
        most = f"maxRuntime: the longest maximum execution time of its work so far {looked_at}"
        return Entry(
            name=queue.name,
            fields=f"{{{named}, maxRuntime: {format_duration(queue.longest)}}}",
            notes=(most, *doubts),
        )
    return _guessed(queue.name, doubts)


def _guessed(name: str, doubts: tuple[str, ...]) -> Entry:
    guess = (
        "TODO maxRuntime is a guess: so long at most a returning user waits for its work. Each Job "
        "needs the label kueue.x-k8s.io/max-exec-time-seconds of no more than that; or, where work "
        "saves itself and resumes, write contract: Checkpoint instead"
    )
    fields = f"{{clusterQueue: {scalar(name)}, maxRuntime: {_GUESS}}}"
    return Entry(name=name, fields=fields, notes=(guess, *doubts))


def _free(name: str, taken: Iterable[str]) -> str:
    known, tried, number = set(taken), name, 2
    while tried in known:
        tried, number = f"{name}-{number}", number + 1
    return tried


# -- the manifest of a queue that would do


def _manifest(name: str, pool: Pool, facts: Facts) -> list[str]:
    flavor = next((f for f, labels in facts.flavors.items() if labels == pool.selector), "")
    head = []
    if not flavor:
        flavor = _free(pool.name, facts.flavors)
        head = [
            *_object("ResourceFlavor", flavor, {}),
            f"spec: {{nodeLabels: {flow(pool.selector)}}}",
            "---",
        ]
    return [*head, *_cluster_queue(name, flavor, pool), "---", *_local_queue(name)]


def _cluster_queue(name: str, flavor: str, pool: Pool) -> list[str]:
    quotas = {
        pool.resource: str(pool.count),
        "cpu": str(sum(node.cpu for node in pool.nodes)),
        "memory": f"{sum(node.memory for node in pool.nodes)}Gi",
    }
    return [
        *_object("ClusterQueue", name, {}),
        "spec:",
        "  namespaceSelector: {}",
        "  resourceGroups:",
        f"    - coveredResources: {flow_list(quotas)}",
        "      flavors:",
        f"        - name: {scalar(flavor)}",
        "          resources:",
        *(
            f"            - {{name: {scalar(resource)}, nominalQuota: {scalar(quota)}}}"
            for resource, quota in quotas.items()
        ),
    ]


def _local_queue(name: str) -> list[str]:
    return [
        *_object("LocalQueue", name, {"namespace": NAMESPACE}),
        f"spec: {{clusterQueue: {scalar(name)}}}",
    ]


def _object(kind: str, name: str, more: Mapping[str, str]) -> list[str]:
    return [
        "apiVersion: kueue.x-k8s.io/v1beta2",
        f"kind: {kind}",
        f"metadata: {flow({'name': name, **more})}",
    ]


def manifests(fillings: Iterable[Filling]) -> str:
    """The manifests of all queues that are missing, as one file."""
    return "---\n".join("\n".join(one.manifest) + "\n" for one in fillings if one.manifest)
