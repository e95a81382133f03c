"""The list of mutants, and how one is made: an edit of a copy of the package, never of the tree."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).parent / "list.toml"
PACKAGE = "idlewin"


class StaleError(Exception):
    """The old text of a mutant does not stand exactly once in its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One edit of the shipped source, and who notices."""

    name: str
    file: str
    old: str
    """Text that stands exactly once in the file."""
    new: str
    breaks: str
    """The promise that the edit breaks, in a sentence."""
    caught_by: tuple[str, ...]
    """Each ``seed N`` of the swarm, or a test; one that fails is enough."""


def read(text: str | None = None) -> list[Mutant]:
    """All mutants, in the order of the list."""
    entries = tomllib.loads(LIST.read_text() if text is None else text)["mutant"]
    return [Mutant(**{**entry, "caught_by": tuple(entry["caught_by"])}) for entry in entries]


def edited(mutant: Mutant, root: Path = ROOT) -> str:
    """Its file with the edit. Raises StaleError."""
    text = (root / mutant.file).read_text()
    if (found := text.count(mutant.old)) != 1:
        raise StaleError(f"{mutant.name}: old text stands {found} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def copied(folder: Path, mutant: Mutant | None) -> None:
    """A copy of the package in a folder, with the edit of a mutant. Raises StaleError."""
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        (folder / mutant.file).write_text(edited(mutant))


def recorded(text: str, name: str, caught_by: tuple[str, ...]) -> str:
    """The list with another record of who catches a mutant."""
    one = re.compile(rf'(name = "{re.escape(name)}"\n.*?caught_by = )\[[^\]]*\]', re.DOTALL)
    written = "[" + ", ".join(f'"{killer}"' for killer in caught_by) + "]"
    changed, count = one.subn(lambda found: found[1] + written, text, count=1)
    if count != 1:
        raise StaleError(f"{name}: no such entry")
    return changed


def sample(mutants: list[Mutant], size: int) -> list[Mutant]:
    """A few, spread over the list; which ones turns with the text of the sources they edit."""
    files = sorted({mutant.file for mutant in mutants})
    turn = crc32(b"".join((ROOT / file).read_bytes() for file in files))
    step = max(1, len(mutants) // size)
    return mutants[turn % step :: step][:size]
