"""``idlewin plane render``: the manifests of a plane, to standard output or into a directory."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from idlewin.cli.connection import Sources, a_catalogue
from idlewin.cli.output import folder_writable, write
from idlewin.errors import UsageError
from idlewin.plane.model import Plane
from idlewin.plane.read import read_plane
from idlewin.plane.render import KUSTOMIZATION, MARK, files, to_close


class Action(StrEnum):
    """What is done with a plane."""

    RENDER = "render"


def plane(
    action: Annotated[Action, typer.Argument(metavar="render", help="Write its manifests.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The plane: docs/plane.md.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a file a kind there; else to standard output."),
    ] = None,
    sources: Sources = None,
) -> None:
    """Render a plane.

    Its manifests are made of the file alone: no cluster is asked, and none is changed. Into DIR go
    a file for each kind and a kustomization.yaml; files of an earlier rendering are replaced, and
    others are never touched.

    Ends with 0, or with 2 where the file has a fault: then nothing is written.
    """
    assert action is Action.RENDER  # noqa: S101 - Typer has looked; there is no other yet
    found = read_plane(file, a_catalogue(sources))
    if found.plane is None:
        raise UsageError("\nerror: ".join(map(str, found.findings)))
    for finding in found.findings:
        typer.echo(f"warning: {finding}", err=True)
    texts = files(found.plane)
    if out is None:
        manifests = [text for name, text in texts.items() if name != KUSTOMIZATION]
        typer.echo("---\n".join(manifests), nl=False)
        return
    _put(out, texts)
    for line in _next(found.plane, out):
        typer.echo(line, err=True)


def _put(out: Path, texts: dict[str, str]) -> None:
    """All files, and none of an earlier rendering beside them. Raises UsageError."""
    folder_writable(out)
    # Before anything is written: a file of a person's is not ours to replace.
    for name in texts:
        path = out / name
        if path.exists() and not _ours(path):
            raise UsageError(
                f"{path} is there and was not rendered by idlewin; name another directory"
            )
    for name, text in texts.items():
        write(out / name, text)
    for path in sorted(out.glob("*.yaml")):
        if path.name not in texts and _ours(path):
            path.unlink()


def _ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().startswith(MARK)
    except (OSError, UnicodeDecodeError):
        return False


def _next(plane: Plane, out: Path) -> list[str]:
    queues = " ".join(to_close(plane))
    hold = '{"spec":{"stopPolicy":"Hold"}}'
    patch = f"kubectl patch clusterqueue $queue --type merge -p '{hold}'"
    return [
        "next:",
        f"  idlewin check {out / 'idlerules.yaml'}",
        f"  kubectl apply -k {out}",
        # Open they would let work in beside serving; in mode Observe idlewin closes none.
        *([f"  for queue in {queues}; do {patch}; done"] if queues else []),
    ]
