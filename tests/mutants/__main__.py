"""Edits the shipped source in many ways; the swarm, a scenario or a law must notice each.

``python -m tests.mutants`` runs all, ``--only NAME`` one. A promise is kept by what is shipped
only if breaking it is noticed: a mutant that survives is a case that nobody looks at.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutants import LIST, ROOT, Mutant, StaleError, copied, read, recorded
from tests.mutants.trial import CAUGHT, SURVIVED

#: Where a story has changed, so many other seeds are asked before a mutant counts as survived.
FURTHER = 150
#: Seconds; one that has not ended by then hangs, which is noticed too.
LONG = 900


def tried(mutant: Mutant | None, killers: tuple[str, ...]) -> str:
    """What became of a mutant; of the source as it is, where there is none. Raises StaleError."""
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder), mutant)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((folder, str(ROOT))),
            # What a law finds against an edit is no example for the source as it is.
            "HYPOTHESIS_STORAGE_DIRECTORY": folder,
        }
        asked = [sys.executable, "-P", "-m", "tests.mutants.trial", folder, *killers]
        try:
            done = subprocess.run(
                asked,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONG,
            )
        except subprocess.TimeoutExpired:
            return f"{CAUGHT}its time: it does not end"
    if done.returncode:
        return f"did not run: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    return done.stdout.splitlines()[-1]


def further(known: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Other seeds that may notice."""
    return tuple(seed for n in range(count) if (seed := f"seed {n}") not in known)


def judged(mutant: Mutant, more: int = FURTHER) -> str:
    """By those that are recorded; by others, where those do not notice any more."""
    try:
        said = tried(mutant, mutant.caught_by)
    except StaleError as stale:
        return f"did not run: {stale}"
    return said if said != SURVIVED else tried(mutant, further(mutant.caught_by, more))


def killer_of(said: str) -> str:
    """The seed or test that a verdict names."""
    return said.removeprefix(CAUGHT).split(": ")[0]


def baseline(mutants: list[Mutant]) -> str:
    """The source as it is must pass what catches its mutants."""
    killers = sorted({killer for mutant in mutants for killer in mutant.caught_by})
    return tried(None, tuple(killers))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--find", action="store_true", help="record a seed where none that is recorded notices"
    )
    parser.add_argument("--seeds", type=int, default=FURTHER, help="how many seeds are searched")
    asked = parser.parse_args()
    mutants = [one for one in read() if not asked.only or one.name in asked.only]
    if not mutants:
        parser.error(f"no mutant is called {', '.join(asked.only)}")
    if (said := baseline(mutants)) != SURVIVED:
        print(f"the source itself is at fault: {said.removeprefix(CAUGHT)}")
        return 1
    began, survived = time.monotonic(), []
    with ThreadPoolExecutor(asked.jobs) as pool:
        verdicts = pool.map(lambda one: judged(one, asked.seeds), mutants)
        for number, (mutant, said) in enumerate(zip(mutants, verdicts, strict=True), 1):
            print(f"{number:3}/{len(mutants)}  {mutant.name}: {said}", flush=True)
            found = killer_of(said)
            if not said.startswith(CAUGHT):
                survived.append(mutant)
            elif asked.find and found not in mutant.caught_by:
                # The recorded tests stay: only seeds go stale.
                tests = tuple(k for k in mutant.caught_by if not k.startswith("seed "))
                LIST.write_text(recorded(LIST.read_text(), mutant.name, (found, *tests)))
    for mutant in survived:
        print(f"survived: {mutant.name} ({mutant.file}): {mutant.breaks}")
    caught = len(mutants) - len(survived)
    print(f"{caught} of {len(mutants)} mutants caught, in {time.monotonic() - began:.0f} s")
    return int(bool(survived))


if __name__ == "__main__":
    sys.exit(main())
