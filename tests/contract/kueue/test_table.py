"""Each fact has a number of its own and a test, each test a fact."""

from __future__ import annotations

import importlib
from types import FunctionType

from tests.contract.kueue.fact import FOLDER, shown

#: Subjects that the facts are grouped by.
SUBJECTS = {1, 2, 3, 4, 5, 6, 8, 10, 12, 13, 14}


def test_every_subject_has_facts_and_every_number_is_used_once():
    numbers = [one.number for one, _ in shown()]

    assert {int(number.partition(".")[0]) for number in numbers} == SUBJECTS
    assert sorted(numbers) == sorted(set(numbers))


def test_every_test_over_the_clusters_shows_a_fact():
    for path in FOLDER.glob("test_*.py"):
        module = importlib.import_module(f"tests.contract.kueue.{path.stem}")
        for name, test in vars(module).items():
            takes = isinstance(test, FunctionType) and name.startswith("test_")
            if takes and {"cluster", "busy"} & set(test.__code__.co_varnames[:1]):
                assert getattr(test, "facts", ()), f"{path.stem}.{name}"
