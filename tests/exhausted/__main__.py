"""The shipped decisions, explored: ``python -m tests.exhausted``, or with the name of one scene.

Each scene is told with its states, and each broken promise with a shortest trace. An exploration
is the same each time, so the command that is printed shows a trace again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from tests.exhausted.explore import Explorer, Found
from tests.exhausted.furnish import Scene
from tests.exhausted.scenes import SCENES

COLUMNS = (
    "| scene | leaders, faults | states | not looked at | looks decided | violations | CPU s |"
)


def row(found: Found) -> str:
    """One line of docs/benchmarks.md."""
    scene = found.scene
    return (
        f"| `{scene.name}`: {scene.about} | {scene.leaders}, {scene.faults} | {found.states} "
        f"| {found.left or 'none: exhausted'} | {found.looks} | {len(found.violations)} "
        f"| {found.seconds:.0f} |"
    )


def told(found: Found, after: int = 0) -> str:
    """Each broken promise but the first so many, what led to it, and how to see it again."""
    lines = []
    for promise, trace in list(found.violations.items())[after:]:
        lines += [
            f"{found.scene.name}: {promise}",
            *(f"  {i + 1}. {s}" for i, s in enumerate(trace)),
        ]
        lines.append(f"again: python -m tests.exhausted {found.scene.name}")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.exhausted", description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help="which; all, if none")
    parser.add_argument("--most", type=int, default=150_000, help="states of a scene, at most")
    parser.add_argument("--leaders", type=int, help="how many; else as many as the scene has")
    parser.add_argument("--faults", type=int, help="how many, at most three; else the scene's")
    parser.add_argument("--kinds", help="kinds of faults, with commas between; else the scene's")
    asked = parser.parse_args()
    rows, broken = [], False
    for name in asked.scenes or SCENES:
        scene = changed(SCENES[name], asked)
        found = Explorer(scene).run(most=asked.most, tell=progress, broke=broke)
        print(row(found), flush=True)
        rows.append(row(found))
        broken = broken or bool(found.violations)
    print("\n".join([COLUMNS, "|---" * 7 + "|", *rows]))
    return int(broken)


def changed(scene: Scene, asked: argparse.Namespace) -> Scene:
    """The scene as the command line has it."""
    how = {
        key: getattr(asked, key) for key in ("leaders", "faults") if getattr(asked, key) is not None
    }
    if asked.kinds is not None:
        how["kinds"] = tuple(asked.kinds.split(","))
    return replace(scene, **how)


def broke(found: Found, before: int) -> None:
    """What was found since, at once: an exploration may take an hour."""
    if text := told(found, before):
        print(f"\n{text}", flush=True)


def progress(depth: int, states: int, layer: int, seconds: float) -> None:
    """A line that is written over."""
    print(f"\r  {depth} steps deep, {states} states, {layer} to look at, {seconds:.0f} s", end="",
          file=sys.stderr, flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
