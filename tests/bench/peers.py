"""What three other tools lose under the same faults, and what idlewin does, side by side.

The three's columns are constants: they were measured earlier, on the same kind of control plane and
with the same kind of cases. idlewin's are what this run sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.bench.figures import Figure
from tests.controlplane.peers import PLANE, Size, Story, Told, a_story, the_story
from tests.labs.build import built
from tests.labs.kubelab.controlplane import ControlPlane
from tests.unit.peers_time import CASES

PEERS = ("GoKubeDownscaler v1.3.4", "py-kube-downscaler v26.4.0", "kube-green v0.7.1")
LARGE = Size(
    deployments=20,
    meddled=10,
    late=timedelta(seconds=70),
    away=timedelta(minutes=1),
    throttle=timedelta(seconds=5),
    slow_window=timedelta(minutes=1),
    tick="15s",
)
FOUGHT_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Row:
    """A case: its name, what each of the three did, and the pools in which idlewin is seen."""

    name: str
    peers: tuple[str, str, str]
    pools: tuple[str, ...]
    says: str
    """What idlewin does beside losing nothing; ``{...}`` are facts of the first pool."""


ROWS = (
    Row(
        "C1 killed in the middle of the scale-down",
        ("lost 0 of 400, three times", "lost 0 of 50, three times", "lost **0, 35, 28 of 50**"),
        ("killed",),
        "killed at {down} of {above} down",
    ),
    Row(
        "C2 killed in the window, back 70 s after its end",
        ("lost 0", "lost 0", "lost **40 of 40**, three times"),
        ("dead",),
        "back {after:.0f} s after it is there again",
    ),
    Row(
        "C3 10 deleted and made anew in the window",
        ("down again; lost 0", "down again; lost 0", "stay up; lost 0"),
        ("remade",),
        "stay up; the window is given back, and says why",
    ),
    Row(
        "C4 10 set to 7 by hand in the window",
        (
            "**down again**, 7 is the new original",
            "**down again**, 7 is the new original",
            "left alone",
        ),
        ("by-hand",),
        "left alone, the rest as before; says who",
    ),
    Row(
        "C5 the marks on 10 wiped",
        ("lost **8 of 8**", "lost **8 of 8**", "lost 0 (a Secret)"),
        ("wiped",),
        "",
    ),
    Row(
        "C5b the memory itself deleted",
        ("as C5", "as C5", "lost **16 of 16**"),
        ("forgotten",),
        "given back from the marks",
    ),
    Row(
        "C5c both copies deleted",
        ("-", "-", "-"),
        ("unknown",),
        "named on the rule, alarm, not lent again",
    ),
    Row(
        "C6 a second writer for a minute, writes to an object",
        ("**13 a minute, no end**", "**5 a minute, no end**", "0"),
        ("fought",),
        "{writes:.0f} in all, then Contested by {contested}",
    ),
    Row(
        "C7 an unreadable schedule in one of three",
        ("**process ends: 80 of 80 others lost**", "others lost 0; its own down", "as py"),
        ("broken", "good", "wiped"),
        "its own are back at once",
    ),
    Row(
        "C8 API server away a minute, across the way down",
        (
            "process **ends**; all down after 2 to 8 s",
            "all down after 17 to 30 s",
            "**18 of 50 down, 8 lost**",
        ),
        ("away-down",),
        "all {down} down after {after:.0f} s, same process",
    ),
    Row(
        "C8 the same across the way back",
        ("process **ends**; lost 0", "lost 0, some after 45 s", "lost **all: 8, 40, 40**"),
        ("away-up",),
        "all back and ready after {after:.0f} s, same process",
    ),
    Row(
        "C9 the scale-down takes longer than a minute",
        ("-", "-", "**never woken**, 9 of 9"),
        ("slow",),
        "stops after {lowered} of {above} at its window's end",
    ),
    Row(
        "C10 how exact is the edge",
        ("never early", "never early", "**up to 60 s early**"),
        ("edge",),
        "first write {first:.1f} s after it, last {last:.1f} s",
    ),
)


def peers_table(folder: Path) -> tuple[str, list[Figure]]:
    """The table of all cases, and the figures that have a goal."""
    with (
        ControlPlane(built("kubelab"), folder / "plane", **PLANE) as plane,
        a_story(plane, folder / "idlewin", LARGE) as story,
    ):
        told = the_story(story, fought_for=FOUGHT_FOR)
        lines = [
            f"| case | {' | '.join(PEERS)} | idlewin |",
            "| --- | --- | --- | --- | --- |",
            *(f"| {row.name} | {' | '.join(row.peers)} | {_said(row, told)} |" for row in ROWS),
            *(
                f"| D {case.name} | {case.go} | {case.py} | {case.green} "
                f"| {case.says if case.holds() else '**not as meant**'} |"
                for case in CASES
            ),
        ]
        return "\n".join(lines), _figures(story, told)


def _said(row: Row, told: dict[str, Told]) -> str:
    lost = sum(len(told[pool].lost) for pool in row.pools)
    above = sum(told[pool].above for pool in row.pools)
    first = told[row.pools[0]]
    says = row.says.format(**{**first.facts, "above": first.above})
    count = f"lost {f'**{lost} of {above}**' if lost else '0'}"
    return f"{count}; {says}" if says else count


def _figures(story: Story, told: dict[str, Told]) -> list[Figure]:
    edge = told["edge"]
    lost = sum(len(one.lost) for pool, one in told.items() if pool != "unknown")
    patches, status = edge.facts["patches"], edge.facts["status"]
    size = story.size.deployments
    return [
        Figure(
            what=f"Deployments lost in 13 cases of {size}, as the table says",
            value=str(lost),
            goal="0",
            met=lost == 0,
        ),
        Figure(
            what="writes a target at an edge: its own, and the status",
            value=f"{patches / edge.above / 2:.2f} + {status / edge.above / 2:.2f}",
            goal="at most 1 + 2",
            met=patches <= 2 * edge.above and status <= 4 * edge.above,
        ),
        Figure(
            what="429 before the API server was away",
            value=str(edge.facts["429"]),
            goal="0",
            met=edge.facts["429"] == 0,
        ),
        Figure(what="409, the same", value=str(edge.facts["409"])),
        Figure(
            what="the return, from the window's end: begun, ready",
            value=f"{edge.facts['begun']:.1f} s, {edge.facts['ready']:.1f} s",
        ),
    ]
