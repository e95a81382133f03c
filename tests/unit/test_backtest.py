"""``idlewin backtest``: the metric by hand, causality, and what odd input comes to."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime

import numpy as np
import pytest

from idlewin import traces
from idlewin.backtest.case import CaseError, case_of
from idlewin.backtest.figures import HEADLINE, Budget, Outcome, best_mix, most_by_chance
from idlewin.backtest.peers import PEERS
from idlewin.backtest.run import followed, peer, tried
from idlewin.cli.app import main
from idlewin.core.rule import METHODS
from idlewin.core.stopping import Handover
from idlewin.forecasters import there
from idlewin.forecasters.plans import plans
from idlewin.pricing.control import PRICES

HERE = [name for name in METHODS if there(name)]
SINGLE = [name for name in HERE if name != "auto"]
SAMPLE = traces.sample()
#: Where the trace is cut, in the middle of a window or a gap of some card.
CUT = 10080 + 2 * 1440 + 617


def a_case(until=None):
    return case_of("sample", traces.load(SAMPLE), traces.about(SAMPLE), Handover(), until)


@pytest.fixture(scope="module")
def whole():
    case = a_case(until=CUT + 2 * 1440)
    return case, tried(case, SINGLE, lambda *_: None, 2)


@pytest.fixture(scope="module")
def cut():
    case = a_case(until=CUT)
    return case, tried(case, SINGLE, lambda *_: None, 2)


def shown(case, result, before):
    made, start = result.windows[HEADLINE], case.fleet.start
    rows = zip(case.gaps.card[made.gap], made.open, made.close, made.ready, strict=True)
    found = [tuple(int(x) for x in (c, o - start, cl - start, r - start)) for c, o, cl, r in rows]
    return [row for row in found if row[3] <= before]


@pytest.mark.parametrize("name", HERE)
def test_what_comes_later_changes_no_window(name, whole, cut):
    (case, trials), (short, short_trials) = whole, cut
    names = SINGLE if name == "auto" else [name]

    full = followed(case, [trials[one] for one in names], PRICES)
    part = followed(short, [short_trials[one] for one in names], PRICES)

    assert len(shown(case, full, CUT)) > 5
    assert shown(short, part, CUT) == shown(case, full, CUT)


def test_the_oracle_is_the_length_of_each_gap_less_both_ends(whole):
    case, _ = whole
    busy = traces.load(SAMPLE)
    best = 0
    for runs in busy.values():
        ends = [0, *(run.end for run in runs)]
        for run, end in zip(runs, ends, strict=False):
            if 10080 < run.start < CUT + 2 * 1440:
                best += max(run.start - 5 - max(end + 2, 10080), 0)

    assert case.best().sum() == best


def test_figures_say_what_the_windows_are(whole):
    case, trials = whole
    result = followed(case, [trials["hazard"]], PRICES)
    made, gaps = result.windows[HEADLINE], case.gaps
    late = harvested = 0
    for gap, opened, close, is_late in zip(made.gap, made.open, made.close, made.late, strict=True):
        if gaps.ended[gap] and gaps.end[gap] > case.judged_from:
            late += int(is_late)
            begins = max(int(opened) + 2, case.judged_from)
            harvested += max(0, min(int(close), int(gaps.end[gap])) - begins)

    share = result.figures.hw["1"]
    assert result.figures.realised["1"] == pytest.approx(late / case.card_weeks, abs=1e-4)
    assert share is None or share == pytest.approx(harvested / case.best().sum(), abs=1e-4)


@pytest.mark.parametrize("of", PEERS, ids=lambda of: of.name)
def test_a_peer_at_its_best_settings_spends_its_budget_and_harvests_less_than_the_oracle(of, whole):
    case, _ = whole
    result = peer(case, plans(case.gaps), of)

    assert not result.figures.causal
    assert 0 < result.figures.hw["0.25"] <= result.figures.hw["1"] <= result.figures.hw["3"] < 1
    assert result.figures.realised["1"] <= 1.0001


def an_outcome(harvested, late):
    one = np.array([float(late)])
    return Outcome(harvested=np.array([float(harvested)]), late=one, late_counted=one, windows=one)


def test_two_settings_are_mixed_up_to_the_budget():
    found = best_mix([an_outcome(100, 10), an_outcome(40, 2)], Budget(per_week=1), 6)

    assert (found.harvested[0], found.late[0]) == (70, 6)


def test_a_budget_below_every_setting_is_met_by_lending_less():
    found = best_mix([an_outcome(100, 10)], Budget(per_week=1), 1)

    assert found.harvested[0] == pytest.approx(10)


@pytest.mark.parametrize(
    ("mean", "most"), [(0.0, 0), (1.0, 3), (10.0, 15), (37.0, 47), (1000.0, 1053)]
)
def test_the_bound_of_chance_is_that_of_poisson(mean, most):
    assert most_by_chance(mean) == most


# -- the command


def code_of(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code or 0


def written(path, rows, **about):
    with gzip.open(path, "wt") as text:
        csv.writer(text).writerows([["card", "start", "end", "demand"], *rows])
    path.with_name(path.name.replace(".csv.gz", ".json")).write_text(json.dumps(about))
    return path


def a_trace(tmp_path, card="one/1", days=10):
    """Demand from nine to five, each day."""
    rows = [[card, d * 1440 + 540, d * 1440 + 1020, 5] for d in range(days)]
    return written(tmp_path / "days.csv.gz", rows, minutes=days * 1440, test_from=7 * 1440)


def test_the_command_writes_figures_windows_and_a_picture(tmp_path, capsys):
    trace, out = a_trace(tmp_path), tmp_path / "out"

    code = code_of(
        f"backtest --trace {trace} --forecaster hazard --peers --cores 1 --open 5m --return 15m "
        f"--json {out}/f.json --windows {out}/w.csv.gz --picture {out}/p.png".split()
    )

    shown = capsys.readouterr()
    assert code == 0, shown
    assert "settings chosen in hindsight" in shown.out
    told = json.loads((out / "f.json").read_text())
    assert (told["trace"], told["cards"], told["open_s"], told["return_s"]) == ("days", 1, 300, 900)
    assert set(told["policies"]) == {"hazard", *(of.name for of in PEERS)}
    assert set(told["policies"]["hazard"]) == {
        "causal", "hw", "hf", "realised", "on_time", "worst_card", "cards_over", "macro", "fit_s",
        "plan_ms",
    }  # fmt: skip
    with gzip.open(out / "w.csv.gz", "rt") as text:
        rows = list(csv.reader(text))
    assert rows[0] == ["card", "open", "close", "ready"]
    assert all(int(o) < int(c) < int(r) for _, o, c, r in rows[1:])
    assert (out / "p.png").stat().st_size > 10_000


def test_of_hindsight_is_spoken_only_where_there_is_some(tmp_path, capsys):
    trace = a_trace(tmp_path)

    assert code_of(f"backtest --trace {trace} --forecaster elapsed --cores 1".split()) == 0
    shown = capsys.readouterr().out
    assert "'over': a budget was broken" in shown
    assert "hindsight" not in shown


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--forecaster", "hasard"], "--forecaster 'hasard' is not known; write one of elapsed"),
        (["--open", "soon"], "--open"),
        (["--return", "0m"], "--return 0m is not whole minutes from 1m to 240m"),
        (["--return", "90s"], "--return 90s is not whole minutes"),
        (["--until", "5"], "--until 5 is not within the judged part; write 10081 to 14400"),
        (["--meta", "nowhere.json"], "nowhere.json"),
        (["--holidays", "Austria"], "--holidays: no country 'Austria' has known holidays; did you"),
    ],
)
def test_a_wrong_option_says_what_would_be_right(asked, said, tmp_path, capsys):
    code = code_of(["backtest", "--trace", str(a_trace(tmp_path)), *asked])

    assert code == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("rows", "about", "said"),
    [
        ([], {}, "there is no row in it"),
        ([["a", 0, 5, ""]], {"minutes": 20000, "test_from": 10000}, "no card has 5 gaps of 30"),
        ([["a", 0, 20000, ""]], {"minutes": 20000, "test_from": 10000}, "no card has 5 gaps of 30"),
        ([["a", 9, 5, ""]], {}, ":2: a from 9 to 5"),
        ([["a", 50, 60, ""], ["a", 5, 9, ""]], {}, ":3: start 5 of a comes after start 50"),
        ([["a", 5, 9, ""]], {"minutes": 100, "test_from": 100}, "test_from 100 leaves nothing"),
    ],
    ids=["no row", "never any demand", "always", "backwards", "clock back", "nothing judged"],
)
def test_odd_traces_are_errors(rows, about, said, tmp_path, capsys):
    trace = written(tmp_path / "odd.csv.gz", rows, **about)

    assert code_of(["backtest", "--trace", str(trace)]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_days_of_rest_are_those_of_the_country_and_of_the_traces_own_clock():
    about = traces.About(
        minutes=20160, test_from=10080, origin=datetime.fromisoformat("2026-04-20T00:00+08:00")
    )
    runs = tuple(traces.Run(day * 1440 + 540, day * 1440 + 600) for day in range(14))
    eve = datetime.fromisoformat("2026-04-30T23:30+08:00")

    found = case_of("office", {"a": runs}, about, Handover(), rests="AT").fleet

    at = int(eve.timestamp() // 60) + np.array([0, 60, 1500])  # a Friday, Labour Day, from 00:00 on
    assert found.local(np.zeros(3, np.int64), at)[1].tolist() == [False, True, True]


def test_a_cut_before_the_judged_part_is_an_error():
    with pytest.raises(CaseError, match="within the judged part"):
        a_case(until=100)
