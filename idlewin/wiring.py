"""The only file that knows concrete adapters: one function a mode, and nothing else.

Modes differ here only. Imports are inside the functions: the command line loads what a mode needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from idlewin.adapters.clock import ServerClock, TimedMetrics
from idlewin.adapters.streamed import WithStreams
from idlewin.controller import Controller, Ports
from idlewin.core.forecast import Forecaster
from idlewin.holidays import dates
from idlewin.options import Options

if TYPE_CHECKING:
    from idlewin.adapters.arbiter import Arbiters
    from idlewin.adapters.claims import Claim
    from idlewin.adapters.exporter import Exporter
    from idlewin.adapters.kubernetes import KubernetesCluster
    from idlewin.adapters.probe import Probes
    from idlewin.adapters.recorder import Recorder
    from idlewin.observe import Observer
    from idlewin.ports import Cluster, Journal, Lease, Metrics
    from idlewin.replay import Case, Recording
    from idlewin.ruletest.trial import Seen, Trial
    from idlewin.service import Held, Service
    from idlewin.sim.process import SimLease
    from idlewin.sim.world import World
    from idlewin.wakeups import Wakeups


def replayed(case: Case, tell: Callable[[datetime, str], None]) -> Recording:
    """A case in a simulated cluster, run to its end: the real controller, virtual time."""
    from idlewin.forecasters.oracle import Oracle  # noqa: PLC0415
    from idlewin.sim.replayed import a_replay  # noqa: PLC0415

    asked = case.rule.forecast.method == "oracle"
    controller = partial(_sim, case, Oracle(case.busy, case.covers.end) if asked else None)
    recording = a_replay(case.rule, case.busy, case.unknown, case.covers, case.seed, controller)
    recording.run(tell)
    return recording


def tried(trial: Trial) -> tuple[Seen, ...]:
    """A test of a rule in a simulated cluster: the real controller, virtual time."""
    from idlewin.sim.tried import Tried  # noqa: PLC0415

    return Tried(trial, partial(_sim, trial, None)).run()


def _sim(of: Case | Trial, sees: Forecaster | None, world: World, lease: SimLease) -> Controller:
    from idlewin.pricing.learner import Learner  # noqa: PLC0415

    world.metrics.catalogue = of.catalogue
    return Controller(
        Ports(
            clock=world.clock,
            metrics=world.metrics,
            cluster=world.cluster,
            journal=world.chronicle,
            lease=lease,
            forecaster=sees or Learner(holidays=dates),
            catalogue=of.catalogue,
        )
    )


def live(options: Options) -> Service:
    """The controller on a real cluster. Raises IdlewinError where there is no way to it."""
    from idlewin.adapters.api import connect  # noqa: PLC0415
    from idlewin.adapters.arbiter import Arbiters, Mediated  # noqa: PLC0415
    from idlewin.adapters.claims import Claims  # noqa: PLC0415
    from idlewin.adapters.edits import Edits  # noqa: PLC0415
    from idlewin.adapters.kubernetes import KubernetesCluster  # noqa: PLC0415
    from idlewin.adapters.lease import KubernetesLease, Terms  # noqa: PLC0415
    from idlewin.adapters.probe import Probes, Probing  # noqa: PLC0415
    from idlewin.service import AloneLease  # noqa: PLC0415

    clock = ServerClock()
    metrics = metrics_of(options, clock)
    api = connect(options.kubeconfig, options.context, clock)
    kubernetes = KubernetesCluster(api, clock, instance=options.instance)
    lease: Held = AloneLease()
    if options.lease:
        # Its own connections: renewing must not wait behind a slow write.
        own = connect(options.kubeconfig, options.context, clock)
        terms = Terms.of(options.lease_duration)
        lease = KubernetesLease(own, clock, options.lease, options.instance, terms)
    probes = Probes(clock.monotonic)
    world = _World(
        kubernetes=kubernetes,
        cluster=Mediated(Probing(kubernetes, probes), Arbiters()),
        metrics=WithStreams(metrics, kubernetes, clock.monotonic),
        lease=lease,
        claim=Claims(Edits(api), clock).claim,
        clock=clock,
        beside=(probes,),
    )
    return _service(options, world)


def dry_run(options: Options) -> Service:
    """The same with a recorder in place of all writes; the rules may be those of files."""
    from idlewin.adapters.claims import no_claims  # noqa: PLC0415
    from idlewin.service import AloneLease  # noqa: PLC0415

    clock = ServerClock()
    metrics = metrics_of(options, clock)
    kubernetes, recorder = recorded(options, clock)
    world = _World(
        kubernetes=kubernetes,
        cluster=recorder,
        metrics=WithStreams(metrics, recorder, clock.monotonic),
        lease=AloneLease(),
        claim=no_claims,
        clock=clock,
    )
    return _service(options, world)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explaining:
    """For one cycle that writes nothing."""

    kubernetes: KubernetesCluster
    cluster: Recorder
    observer: Observer
    controller: Controller
    arbiters: Arbiters


def explaining(options: Options) -> Explaining:
    """A recorder over a real cluster, what looks at it, and what runs the cycle."""
    from idlewin.adapters.arbiter import Arbiters  # noqa: PLC0415
    from idlewin.adapters.journal import MemoryJournal  # noqa: PLC0415
    from idlewin.observe import Observer  # noqa: PLC0415
    from idlewin.pricing.learner import Learner  # noqa: PLC0415
    from idlewin.service import AloneLease  # noqa: PLC0415

    clock = ServerClock()
    metrics = metrics_of(options, clock)
    kubernetes, recorder = recorded(options, clock)
    metrics = WithStreams(metrics, recorder, clock.monotonic)
    # One answer: the price is the one that stands in the status.
    learner = Learner(holidays=dates, prices=False)
    return Explaining(
        kubernetes=kubernetes,
        cluster=recorder,
        arbiters=Arbiters(),
        observer=Observer(clock, metrics, recorder, learner, options.catalogue),
        controller=Controller(
            Ports(
                clock=clock,
                metrics=metrics,
                cluster=recorder,
                journal=MemoryJournal(),
                lease=AloneLease(),
                forecaster=learner,
                catalogue=options.catalogue,
            )
        ),
    )


def returning(
    options: Options, paused: Collection[str], gone: Collection[str], lease: Lease
) -> tuple[KubernetesCluster, Controller]:
    """Cycles that only give back, which is safe beside another that leads."""
    from idlewin.adapters import returning as only  # noqa: PLC0415
    from idlewin.adapters.api import connect  # noqa: PLC0415
    from idlewin.adapters.journal import MemoryJournal  # noqa: PLC0415
    from idlewin.adapters.kubernetes import KubernetesCluster  # noqa: PLC0415

    api = connect(options.kubeconfig, options.context)
    kubernetes = KubernetesCluster(api, api.clock, instance=options.instance)
    return kubernetes, Controller(
        Ports(
            clock=api.clock,
            metrics=only.UnaskedMetrics(api.clock),
            cluster=only.Returning(kubernetes, paused, gone),
            journal=MemoryJournal(),
            lease=lease,
            forecaster=only.UnaskedForecaster(),
            catalogue=None,
        )
    )


def recorded(options: Options, clock: ServerClock) -> tuple[KubernetesCluster, Recorder]:
    """A real cluster's watches, and a recorder over what they show."""
    from idlewin.adapters.api import connect  # noqa: PLC0415
    from idlewin.adapters.files import FileRules  # noqa: PLC0415
    from idlewin.adapters.kubernetes import KubernetesCluster  # noqa: PLC0415
    from idlewin.adapters.recorder import Recorder  # noqa: PLC0415

    # A dry run twice over: the recorder sends nothing, and its API could store nothing.
    api = connect(options.kubeconfig, options.context, clock).rehearsing()
    own = options.rules is None
    kubernetes = KubernetesCluster(api, api.clock, instance=options.instance, own_rules=own)
    rules = FileRules(options.rules, kubernetes) if options.rules else kubernetes
    return kubernetes, Recorder(rules)


def metrics_of(options: Options, clock: ServerClock) -> Metrics:
    """Demand, as the Prometheus that was named tells it. Raises UsageError where none was."""
    from idlewin.adapters.prometheus import prometheus_of  # noqa: PLC0415

    return TimedMetrics(prometheus_of(options, clock), clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """In what the modes on a real cluster differ."""

    kubernetes: KubernetesCluster
    cluster: Cluster
    metrics: WithStreams
    lease: Held
    claim: Callable[[str, timedelta], Claim]
    clock: ServerClock
    beside: tuple[Probes, ...] = ()


def _service(options: Options, world: _World) -> Service:
    from idlewin.adapters.exporter import Exporter  # noqa: PLC0415
    from idlewin.adapters.http import Backing, Endpoint, application  # noqa: PLC0415
    from idlewin.adapters.journal import FileJournal, Journals  # noqa: PLC0415
    from idlewin.adapters.logs import LogJournal  # noqa: PLC0415
    from idlewin.service import Hearers, Parts, Service, Stoppable, due_after  # noqa: PLC0415
    from idlewin.wakeups import Pace, Wakeups  # noqa: PLC0415

    clock, may_act = world.clock, Stoppable(world.lease)
    exporter, log = Exporter(clock.now), LogJournal()
    files = [FileJournal(options.journal)] if options.journal else []
    journal = Journals(log, exporter, *files)
    cycle = _learning(options, world, journal, may_act).cycle
    heard = Hearers(exporter, log.gone, *(file.gone for file in files))
    pace = Pace(tick=options.tick, workers=options.workers)
    wakeups = Wakeups(due_after(cycle), world.cluster.names, clock, heard, pace)
    _export(exporter, wakeups, world)
    exporter.ask("idlewin_journal_errors_total", lambda: sum(file.errors for file in files))
    beside: list[WithStreams | Probes] = [world.metrics, *world.beside]
    for one in beside:
        one.subscribe(wakeups.wake)

    def endpoint(service: Service) -> Endpoint:
        backing = Backing(
            trouble=service.trouble,
            missing=service.missing,
            metrics=exporter.text,
            claim=world.claim,
            token=options.token,
        )
        return Endpoint(application(backing), *options.listen)

    return Service(
        Parts(
            wakeups=wakeups,
            watching=world.kubernetes,
            may_act=may_act,
            lease=world.lease,
            endpoint=endpoint,
            last=[*(file.close for file in files), *(one.close for one in beside)],
        )
    )


def _learning(options: Options, world: _World, journal: Journal, lease: Lease) -> Controller:
    """The controller, and beside it the one that learns for all rules."""
    from idlewin.pricing.learner import Learner  # noqa: PLC0415
    from idlewin.service import in_background  # noqa: PLC0415

    return Controller(
        Ports(
            clock=world.clock,
            metrics=world.metrics,
            cluster=world.cluster,
            journal=journal,
            lease=lease,
            forecaster=Learner(in_background, dates),
            catalogue=options.catalogue,
            poll=options.tick,
        )
    )


def _export(exporter: Exporter, wakeups: Wakeups, world: _World) -> None:
    """What is measured elsewhere, for the scrape."""
    exporter.ask("idlewin_queue_depth", wakeups.queue.depth)
    exporter.ask("idlewin_queue_oldest_wait_seconds", wakeups.queue.oldest_wait)
    exporter.ask("idlewin_lease_held", world.lease.held)
    counts = world.kubernetes.counts
    exporter.ask("idlewin_api_lists_total", lambda: sum(c.lists for _, c in counts()))
    exporter.ask("idlewin_api_watches_total", lambda: sum(c.watches for _, c in counts()))
