"""The list of mutants fits the source, and a sample of it is noticed; ``make mutants`` runs all."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import baseline, judged
from tests.mutants.mutants import ROOT, Mutant, StaleError, edited, read, recorded, sample
from tests.mutants.trial import CAUGHT, SURVIVED

MUTANTS = read()
SAMPLE = sample(MUTANTS, 8)
#: Seeds that are asked where a story has changed: fewer than by hand, for the time it takes.
FURTHER = 60


def test_each_old_text_stands_once_in_its_file_and_the_edit_changes_it():
    assert all(edited(one) != (ROOT / one.file).read_text() for one in MUTANTS)


def test_an_old_text_that_is_gone_is_told():
    gone = Mutant(
        name="x", file="idlewin/core/phase.py", old="no such text", new="", breaks="", caught_by=()
    )

    with pytest.raises(StaleError, match="0 times"):
        edited(gone)


def test_names_differ_and_each_is_caught_by_something():
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.caught_by and one.breaks for one in MUTANTS)


#: What asks others and is asked, and what reads files: no table of the core is repeated by a unit
#: test of these.
SIGNALS = ("idlewin/catalogue.py", "idlewin/adapters/", "idlewin/ruletest/")


def test_no_mutant_of_what_decides_and_writes_rests_on_a_unit_test():
    ruled = [one for one in MUTANTS if not one.file.startswith(SIGNALS)]
    tests = {killer for one in ruled for killer in one.caught_by if "seed " not in killer}

    assert {test.split("/")[1] for test in tests} <= {"simulation", "property"}


def test_no_mutant_edits_the_simulated_cluster_whose_writes_no_user_runs():
    assert not [one.name for one in MUTANTS if one.file.startswith("idlewin/sim/")]


def test_a_new_record_of_who_catches_changes_that_line_only():
    entry = '[[mutant]]\nname = "{}"\ncaught_by = ["seed 1"]\n'
    text = entry.format("a") + entry.format("b")

    after = recorded(text, "b", ("seed 7", "tests/simulation/x.py::test_y"))

    assert after == entry.format("a") + entry.format("b").replace(
        '"seed 1"', '"seed 7", "tests/simulation/x.py::test_y"'
    )


def test_the_source_as_it_is_passes_what_catches_the_sample():
    assert baseline(SAMPLE) == SURVIVED


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda one: one.name.replace(" ", "-"))
def test_an_edit_of_the_sample_is_noticed(mutant: Mutant):
    assert judged(mutant, FURTHER).startswith(CAUGHT), mutant.breaks
