"""An entry of ``serving``: who it is, where its demand shows, and what could not be known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from idlewin.draft.demand import Match
from idlewin.draft.facts import Facts, Seen, Tenant, listed
from idlewin.draft.pools import Pool
from idlewin.draft.yamltext import comment, flow, scalar

#: Programs whose requests in flight are streamed, and seen in no Prometheus.
_SWAP = "llama-swap"
_AT = 6


def target(tenant: Tenant, pool: Pool, found: Sequence[Match], facts: Facts) -> Iterator[str]:
    """One target of a rule."""
    ref = tenant.ref
    for note in _notes(tenant, pool):
        yield from comment(note, _AT - 2)
    yield f"    - apiVersion: {scalar(ref.api_version)}"
    yield f"      kind: {scalar(ref.kind)}"
    yield f"      namespace: {scalar(ref.namespace)}"
    yield f"      name: {scalar(ref.name)}"
    yield from _demand(tenant, found, facts)
    yield "      leadTime: Auto        # measured start-ups; or a duration such as 4m"
    yield "      readyTimeout: 15m     # a return that takes longer raises an alarm"
    yield from _probe(tenant)


def _notes(tenant: Tenant, pool: Pool) -> Iterator[str]:
    held, claims = pool.holds(tenant), tenant.claims.get(pool.resource, 0)
    if not claims and tenant.devices:
        yield (
            f"{tenant.ref} requests no card and opens the device node: only idlewin keeps batch "
            "off its card."
        )
    elif not held and tenant.replicas:
        yield f"{tenant.ref} asks for {claims} and holds none now: it waits, or is at zero."
    elif not held:
        yield f"{tenant.ref} asks for {claims} a replica and is at zero now."
    for trouble in tenant.why:
        yield f"TODO {trouble}."


# -- demand


def _demand(tenant: Tenant, found: Sequence[Match], facts: Facts) -> Iterator[str]:
    swap = _address(tenant) if _is_swap(tenant) else ""
    doors = [one for one in found if one.source.visible_at_zero]
    running = [one for one in found if one.source.running_work]
    if not doors:
        yield from _lacks(
            "what stands in front of it, and shows who wants it while it has no pod",
            [seen for seen in facts.sources if seen.source.visible_at_zero],
            facts,
        )
    if not running and not swap:
        yield from _lacks(
            "the work that it has in flight",
            [seen for seen in facts.sources if seen.source.running_work],
            facts,
        )
    if _is_swap(tenant) and not swap:
        yield "      # TODO it is a llama-swap, and no Service of it was seen; write its address:"
        yield "      #   - llamaSwap: {url: http://HOST:PORT}"
    if not found and not swap:
        yield from comment(
            "Where nothing can show it, write demand: CalendarOnly, and hours in window.calendar: "
            "then nobody's demand is looked at, and those hours and `idlewin wake` alone decide.",
            _AT,
        )
        yield "      demand: []"
        return
    yield "      demand:"
    if swap:
        yield from _of_swap(swap)
    for match in found:
        yield from _of_match(match)


def _of_match(match: Match) -> Iterator[str]:
    if match.by:
        yield from comment(f"Found by {match.by}; see that it is right.", _AT + 2)
    if match.doubt:
        yield from comment(f"TODO unknown now: {match.doubt}.", _AT + 2)
    yield f"        - {{source: {scalar(match.source.name)}, match: {flow(match.match)}}}"


def _lacks(what: str, sources: list[Seen], facts: Facts) -> Iterator[str]:
    names = listed([seen.source.name for seen in sources], 12)
    if facts.no_prometheus:
        yield from comment(f"TODO not known: {what} ({facts.no_prometheus}).", _AT)
        return
    alive = [seen for seen in sources if seen.alive and seen.series]
    yield from comment(f"TODO not found: {what}. Sources that would show it: {names}.", _AT)
    for seen in alive:
        told = listed((flow(_as_match(seen, key)) for key in seen.by_key), 5)
        yield from comment(f"{seen.source.name} is alive, and has {told}.", _AT)
        if bare := seen.unlabelled:
            yield from comment(
                f"No series of it has the label {', '.join(bare)}: {seen.source.remedy}.", _AT
            )


def _as_match(seen: Seen, key: tuple[str, ...]) -> dict[str, str]:
    return {label: value for label, value in zip(seen.source.keys, key, strict=True) if value}


def _is_swap(tenant: Tenant) -> bool:
    return any(_SWAP in text for text in (tenant.ref.name, *tenant.images))


def _of_swap(url: str) -> Iterator[str]:
    yield from comment(
        "Its requests in flight, by its event stream (llama-swap v240 or newer). The address has "
        "to be reached from where the controller runs: outside of the cluster write another.",
        _AT + 2,
    )
    yield f"        - llamaSwap: {flow({'url': url})}"


# -- ready


def _address(tenant: Tenant) -> str:
    for service in tenant.services:
        ports = sorted(service.ports, key=lambda port: "http" not in port[0])
        if ports:
            number = ports[0][1]
            port = "" if number == 80 else f":{number}"
            return f"http://{service.name}.{tenant.ref.namespace}.svc{port}"
    return ""


def _probe(tenant: Tenant) -> Iterator[str]:
    if _is_swap(tenant):
        yield "      # Asked right before it goes to zero, it unloads its models (docs/serving.md):"
        yield "      # arbiter: LlamaSwap"
    if url := _address(tenant):
        yield "      # Ready means that this answers, asked from where the controller runs:"
        yield f'      # probe: {{http: {{url: "{url}/health", expect: 200, timeout: 10s}}}}'
