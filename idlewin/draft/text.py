"""The text of a first rule: what is known as values, what is not as comments beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from idlewin.core.rule import API_VERSION, KIND
from idlewin.core.target import Ref
from idlewin.draft.demand import Match, activity
from idlewin.draft.facts import Facts, Role, Tenant, listed
from idlewin.draft.pools import Pool
from idlewin.draft.queues import NAMESPACE, Filling
from idlewin.draft.targets import target
from idlewin.draft.yamltext import comment, commented, flow, flow_list, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One rule that is to be written."""

    pool: Pool
    filling: Filling
    queues_file: str = ""
    """Where the manifest of its queue goes; empty: into its comments."""
    demands: Mapping[Ref, tuple[Match, ...]] = field(default_factory=dict)
    """Where the demand of each target shows."""
    stops: tuple[str, ...] = ()
    """What ``idlewin check`` finds wrong with it: a line each."""

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.pool.name


def written(sheet: Sheet, facts: Facts) -> str:
    """The rule as a document of YAML."""
    parts = (_head, _cards, _serving, _batch)
    lines = [line for part in parts for line in part(sheet, facts)]
    return "\n".join([*lines, *_rest()]) + "\n"


def _head(sheet: Sheet, _facts: Facts) -> Iterator[str]:
    pool = sheet.pool
    yield from comment(
        f"Drafted by idlewin init: {pool.count} {pool.resource} on {pool.where}. Look it over, "
        "above all what a TODO stands at. What each field means, and what is the default: "
        "docs/rule.md."
    )
    if sheet.stops:
        yield "#"
        yield "# idlewin check stops at what follows; until it is put right nothing is lent:"
        for stop in sheet.stops:
            # One line each, however long: the lines that they name must not move.
            yield f"#   {stop}"
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    yield f"metadata: {flow({'name': sheet.name})}"
    yield "spec:"
    yield from comment(
        "Observe decides and records, and changes nothing. Read `idlewin explain "
        f"{sheet.name}` for some days; when you trust what it would have done, write Act.",
        2,
    )
    yield "  mode: Observe"
    yield ""


def _cards(sheet: Sheet, facts: Facts) -> Iterator[str]:
    pool = sheet.pool
    yield from comment(
        "Every card of this resource on these nodes belongs to the rule. A count that is not what "
        "the nodes have is an error, so that a card that was added or lost does not go unseen.",
        2,
    )
    if pool.to_label:
        names = " ".join(node.name for node in pool.nodes)
        ((key, value),) = pool.selector.items()
        yield "  # TODO no label of theirs tells these nodes from the others; give them one:"
        yield f"  #   kubectl label node {names} {key}={value}"
    for node in pool.nodes:
        # NVIDIA's device plugin says so on the node; others say nothing.
        if node.labels.get("nvidia.com/gpu.replicas", "1") not in ("", "0", "1"):
            yield from comment(
                f"TODO {node.name} offers each card "
                f"{node.labels['nvidia.com/gpu.replicas']} times over (time-slicing), so two may "
                "be on one card: set the device plugin to one pod a card.",
                2,
            )
    yield "  cards:"
    yield f"    resource: {scalar(pool.resource)}"
    yield f"    count: {pool.count}"
    yield f"    nodeSelector: {flow(pool.selector)}"
    yield from _activity(pool, facts)
    yield from _devices(pool, facts)
    yield ""


def _activity(pool: Pool, facts: Facts) -> Iterator[str]:
    found, others = activity(pool.resource, pool.nodes, facts.sources)
    for told in others:
        yield from comment(f"{told}.", 4)
    if found is not None:
        match = f", match: {flow(found.match)}" if found.match else ""
        yield f"    activity: {{source: {scalar(found.source.name)}{match}}}"
    elif not others and not facts.no_prometheus:
        known = listed([s.source.name for s in facts.sources if s.measures], 9)
        yield from comment(
            f"No exporter that measures these cards is alive ({known}); without one only demand "
            "counts.",
            4,
        )


def _devices(pool: Pool, facts: Facts) -> Iterator[str]:
    if not pool.devices:
        return
    yield from comment(
        "Some open these from the host without requesting a card. Whoever mounts them, or what is "
        "above, counts as on the cards.",
        4,
    )
    yield f"    deviceNodes: {flow_list(pool.devices)}"
    wide = {
        tenant.ref.namespace
        for tenant in facts.tenants
        for node in pool.nodes
        if {"/", "/dev"} & set(tenant.devices.get(node.name, ()))
    }
    if wide:
        yield "    # TODO some mount all of /dev there; where that is for something else:"
        yield f"    # exemptNamespaces: {flow_list(sorted(wide))}"


def _serving(sheet: Sheet, facts: Facts) -> Iterator[str]:
    pool = sheet.pool
    yield from comment(
        "Who owns the cards outside windows; brought back in this order. Of its demand any busy is "
        "busy; else any unknown is unknown, and unknown never opens a window. Both halves are "
        "needed: what shows demand while it has no pod, and what shows a request while it lasts "
        "(docs/sources.md).",
        2,
    )
    apart = [*pool.of(Role.APART), *pool.of(Role.BATCH)]
    for tenant in apart:
        yield from comment(_not_serving(tenant), 2)
    yield "  serving:"
    for tenant in pool.of(Role.SERVING):
        yield from target(tenant, pool, sheet.demands.get(tenant.ref, ()), facts)
    yield ""


def _not_serving(tenant: Tenant) -> str:
    if tenant.role is Role.BATCH:
        return f"{tenant.ref} has cards too, and is batch: it belongs into a queue below."
    why = "; ".join(tenant.why)
    if tenant.held or tenant.devices:
        return f"TODO {tenant.ref} is on these cards and not listed: {why}."
    return f"{tenant.ref} asks for such cards and is not listed: {why}."


def _batch(sheet: Sheet, facts: Facts) -> Iterator[str]:
    filling = sheet.filling
    yield "  # ClusterQueues that fill the cards in a window. Each must be given to the rule first:"
    for entry in filling.entries:
        yield f"  #   idlewin adopt {entry.name} --rule {sheet.name}"
    for note in filling.notes:
        yield from comment(f"{note}.", 2)
    if filling.manifest:
        yield from _missing_queue(sheet, facts)
    yield "  batch:"
    yield "    queues:"
    for entry in filling.entries:
        for note in entry.notes:
            yield from comment(f"{note}.", 6)
        yield f"      - {entry.fields}"
    yield "    onReturn: Wait      # a returning user lets work without a contract end"
    yield ""


def _missing_queue(sheet: Sheet, facts: Facts) -> Iterator[str]:
    none = "no ClusterQueue has quota for these cards"
    if facts.no_kueue:
        none = "this cluster has no Kueue (kueue.x-k8s.io/v1beta2), which has to be installed first"
    elif "clusterqueues" in facts.unseen:
        none = "ClusterQueues could not be listed; name yours, if there is one"
    here = f"in {sheet.queues_file}" if sheet.queues_file else "below"
    yield from comment(
        f"TODO {none}. One that would do is {here}; its LocalQueue is for Jobs in the namespace "
        f"{NAMESPACE}, write yours. Close it before its first Job: a queue is open until somebody "
        "closes it, and in mode Observe idlewin closes none (docs/operations.md).",
        2,
    )
    if not sheet.queues_file:
        yield "  #"
        yield from commented((f"  {line}" for line in sheet.filling.manifest), 2)
        yield "  #"


def _rest() -> Iterator[str]:
    yield from (
        "  window:",
        "    idleFor: 10m        # idle at least so long before giving away",
        "    min: 30m            # not worth a handover if shorter",
        "    max: 12h            # serving is wanted back by then",
    )
    yield from comment(
        "TODO your hours and your zone could not be known: without a calendar any hour will do. A "
        "day name is the day on which the span starts.",
        4,
    )
    yield from commented(
        (
            "calendar:",
            "  timeZone: Europe/Vienna",
            '  allow: ["Sun-Thu 22:00-07:00", "Fri 22:00-24:00", "Sat,Sun"]',
        ),
        4,
    )
    yield ""
    yield "  forecast:"
    yield "    budget: {perWeek: 1}      # late returns a week of this pool; or {share: 5%}"
    yield from comment(
        "dayTypes: {holidays: AT}      # a country whose public holidays are unlike other days", 4
    )
