"""The packaged traces of ServeGen follow from its counts; only minutes inside windows are drawn."""

from __future__ import annotations

from itertools import islice

import pytest

from idlewin import traces
from tests.bench.draws import Row, clients, counts, fleets, write


@pytest.fixture(scope="module")
def published():
    return list(counts())


@pytest.fixture(scope="module")
def some(published):
    names = dict.fromkeys(count.client for count in published)
    first = set(islice(names, 12))
    return [count for count in published if count.client in first]


def packaged(name):
    path = traces.sample().with_name(f"{name}.csv.gz")
    return {
        card: [Row(card, run.start, run.end, run.demand) for run in runs]
        for card, runs in traces.load(path).items()
    }


def by_card(rows):
    found = {}
    for row in rows:
        found.setdefault(row.card, []).append(row)
    return found


def test_the_packaged_clients_are_the_draw_of_seed_7(some):
    drawn, known = by_card(clients(some, 7)), packaged("servegen-clients")

    assert drawn == {card: known[card] for card in drawn}


def test_the_packaged_fleets_need_no_draw(published):
    assert by_card(fleets(published)) == packaged("servegen-fleets")


def test_another_seed_moves_minutes_inside_their_windows_only(some):
    one, other = list(clients(some, 1)), list(clients(some, 2))

    def windows(rows):
        return {(r.card, minute // 10) for r in rows for minute in range(r.start, r.end)}

    assert one != other
    assert windows(one) == windows(other)
    assert sum(r.demand for r in one) == sum(r.demand for r in other)


def test_what_is_written_is_read_again(some, tmp_path):
    rows = list(clients(some[:300], 1))

    path = write(rows, "drawn", tmp_path, "a draw")

    assert [Row(card, r.start, r.end, r.demand) for card, runs in traces.load(path).items()
            for r in runs] == rows  # fmt: skip
    told = traces.about(path)
    assert (told.minutes, told.test_from, told.source) == (20160, 10080, "a draw")
