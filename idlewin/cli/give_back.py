"""``idlewin give-back``: bring serving back by hand, whether a controller runs or not."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.adapters.clock import SystemClock
from idlewin.cli.connection import Context, Kubeconfig, Lease, a_lease, edits, in_sight
from idlewin.core.condition import ConditionType
from idlewin.core.decision import Remember
from idlewin.core.explain import headline, line, wish
from idlewin.core.phase import Phase
from idlewin.core.text import format_duration, parse_duration
from idlewin.errors import IdlewinError, UsageError
from idlewin.options import STAND_IN, Options
from idlewin.ports import LookError
from idlewin.service import AloneLease, Held
from idlewin.wiring import returning

if TYPE_CHECKING:
    from idlewin.adapters.stranded import Stranded
    from idlewin.controller import Controller
    from idlewin.core.decision import Decision
    from idlewin.core.pool import RuleObject

log = logging.getLogger(__name__)
#: With nothing to wake us, look again after this.
STEP = timedelta(seconds=1)
_WHOM = "name one rule, or write --all, or --stale DURATION"

_Rule = Annotated[str | None, typer.Argument(metavar="RULE", help="The IdleRule.")]
_All = Annotated[
    bool, typer.Option("--all", help="All rules, and what rules that are gone have left.")
]
_Stale = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="Rules that are not back while no controller has led for so long, and what rules "
        "that are gone have left. Pauses nothing: for the watchdog.",
    ),
]
_Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Do not wait for batch: serving comes back beside it once it was told to leave. "
        "Where serving opens the device node, both then use one card. A rule that is being deleted "
        "does not wait for Kueue to show its queues stopped, either.",
    ),
]
_NoPause = Annotated[
    bool,
    typer.Option("--no-pause", help="Leave the rule on: a controller may lend again at once."),
]
_Timeout = Annotated[str, typer.Option(metavar="DURATION", help="Give up waiting after this.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Whom to bring back."""

    rules: tuple[str, ...]
    paused: bool
    """Whether the rules look paused; else they are given back because nobody asks for demand."""
    gone: tuple[str, ...]
    lease: Held
    unpaused: tuple[RuleObject, ...] = ()
    """Rules whose pause could not be written; their return does not wait for it."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.rules + self.gone


def give_back(
    rule: _Rule = None,
    everything: _All = False,
    stale: _Stale = "",
    force: _Force = False,
    no_pause: _NoPause = False,
    timeout: _Timeout = "30m",
    lease: Lease = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Bring serving back now.

    Pauses the rule, seals its queues, and has serving back as it was on record, by the same steps
    that a controller takes; none needs to run. 'idlewin resume RULE' lets the rule go on.
    """
    limit = _duration("--timeout", timeout)
    if (named := [rule is not None, everything, bool(stale)].count(True)) != 1:
        raise UsageError(f"{_WHOM}; not both" if named else _WHOM)
    instance = f"{STAND_IN}{socket.gethostname()}_{os.getpid()}"
    options = Options(kubeconfig=kubeconfig, context=context, instance=instance)
    if stale:
        task = _left_behind(options, a_lease(lease), _duration("--stale", stale))
    else:
        task = _asked_for(options, rule, pause=not no_pause)
    if not task.names:
        typer.echo("there is nothing to give back")
        return
    paused = task.rules if task.paused else ()
    kubernetes, controller = returning(options, paused, task.gone, task.lease)
    with in_sight(kubernetes):
        changed = Event()
        kubernetes.subscribe(lambda _name: changed.set())
        _until_back(controller, task, changed, limit, force=force)
    for one in task.unpaused:
        edits(kubeconfig, context).pause(one)
    # Not where that failed: the next one that stands in need not wait for the silence again.
    task.lease.stop()


# -- whom


def _stranded(options: Options) -> Stranded:
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, after the usage
    from idlewin.adapters.edits import told  # noqa: PLC0415
    from idlewin.adapters.stranded import stranded  # noqa: PLC0415

    with told("the cluster"):
        return stranded(connect(options.kubeconfig, options.context))


def _asked_for(options: Options, rule: str | None, *, pause: bool) -> _Task:
    """What a person names. Pauses it, so that no controller lends it again."""
    found = _stranded(options)
    rules = [one for one in found.rules if rule in (None, one.name)]
    gone = tuple(name for name in found.gone if rule in (None, name))
    if rule is not None and not rules and not gone:
        raise UsageError(f"there is no rule {rule}; idlewin status lists those that there are")
    cluster, unpaused = edits(options.kubeconfig, options.context), []
    for one in rules:
        if pause and not one.deleting and not (one.rule and one.rule.paused):
            try:
                cluster.pause(one)
            except IdlewinError as error:
                typer.echo(f"warning: {error}; it is paused when serving is back", err=True)
                unpaused.append(one)
    names = tuple(one.name for one in rules)
    return _Task(rules=names, paused=True, gone=gone, lease=AloneLease(), unpaused=tuple(unpaused))


def _left_behind(options: Options, place: tuple[str, str], limit: timedelta) -> _Task:
    """What a controller that is dead has left, and what rules that are gone have left."""
    found = _stranded(options)
    away = tuple(one.name for one in found.away)
    lease = _stand_in(options, place, limit) if away else None
    if lease is None:
        away, lease = (), AloneLease()
    elif away:
        typer.echo(f"nobody leads: {', '.join(away)} given back here")
    return _Task(rules=away, paused=False, gone=found.gone, lease=lease)


def _stand_in(options: Options, place: tuple[str, str], limit: timedelta) -> Held | None:
    """The dead controller's Lease, taken; None: one leads. Raises IdlewinError."""
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, after the usage
    from idlewin.adapters.edits import told  # noqa: PLC0415
    from idlewin.adapters.leader import Vacancy  # noqa: PLC0415
    from idlewin.adapters.lease import KubernetesLease  # noqa: PLC0415

    name = "/".join(place)
    api = connect(options.kubeconfig, options.context)
    ours = KubernetesLease(api, api.clock, place, options.instance)
    vacancy = Vacancy(api, place, limit)
    with told(f"Lease {name}"):
        if not vacancy.taken(ours):
            typer.echo(f"Lease {name}: somebody leads, or has led within {format_duration(limit)}")
            return None
    if not ours.held():
        typer.echo(f"Lease {name} is not there, and nobody makes it")
        return AloneLease()
    ours.start()
    return ours


def _until_back(
    controller: Controller, task: _Task, changed: Event, limit: timedelta, *, force: bool
) -> None:
    clock = SystemClock()
    end, left = clock.monotonic() + limit.total_seconds(), dict.fromkeys(task.names, "")
    while left:
        changed.clear()
        for name in tuple(left):
            back, left[name] = _cycle(controller, name, left[name], force=force)
            if not task.lease.held():
                typer.echo("a controller leads again; the rest is left to it")
                return
            if back:
                del left[name]
        if left and clock.monotonic() >= end:
            waits = "; ".join(f"{name}: {why}" for name, why in left.items())
            raise IdlewinError(
                f"not back within {format_duration(limit)}: {waits}; what was begun goes on with "
                "the next give-back or controller"
            )
        if left:
            changed.wait(STEP.total_seconds())


def _cycle(controller: Controller, name: str, said: str, *, force: bool) -> tuple[bool, str]:
    """One cycle: whether the pool is back, and else what it waits for."""
    try:
        decision = controller.cycle(name, forced=force)
    except LookError as error:
        return False, str(error)
    except Exception as error:
        # What one rule stumbles over keeps no other from coming back; it is tried again.
        waits = f"its cycle failed: {error!r}"
        if waits != said:
            log.exception("%s", name)
        return False, waits
    if decision is None:
        typer.echo(f"{name}: the rule is gone")
        return True, ""
    for action in decision.actions:
        # A status that only tells more may be left for later; the phase is told below.
        if not isinstance(action, Remember):
            typer.echo(f"{name}: {wish(action)}")
    if decision.changes_phase:
        typer.echo(headline(decision))
    if _is_back(decision):
        typer.echo(f"{name}: serving is back")
        return True, ""
    waits = _waits_for(decision)
    if waits != said and not decision.changes_phase:
        typer.echo(f"{name}: waits for {waits}")
    return False, waits


def _is_back(decision: Decision) -> bool:
    # A status that only tells more is written late; it is not waited for.
    return (
        decision.before is decision.after is Phase.SERVING
        and decision.status.window is None
        and not _held(decision)
        and all(isinstance(action, Remember) for action in decision.actions)
    )


def _held(decision: Decision) -> str:
    """What keeps a rule that is being deleted, or is gone; empty: nothing."""
    found = (c for c in decision.status.conditions if c.type == ConditionType.DELETION_WAITS)
    if told := next((c.message for c in found), ""):
        return told
    # Once it is gone nobody knows any more what it has put to sleep, or closed.
    leaving = any(check.name == "deleted" and not check.passed for check in decision.checks)
    owed = decision.status.owed
    names = [f"Workload {one.namespace}/{one.name}" for one in owed.workloads]
    names += [f"LocalQueue {one.namespace}/{one.name}" for one in owed.local_queues]
    return f"{', '.join(names)} as before, once batch has left" if leaving and names else ""


def _waits_for(decision: Decision) -> str:
    if decision.after is Phase.SERVING and (held := _held(decision)):
        return f"its deletion: {held}"
    failed = [line(check) for check in decision.checks if not check.passed and check.otherwise]
    return failed[0].removeprefix("no ").strip() if failed else decision.reason.meaning


def _duration(option: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
