"""``idlewin tune``: a grid of real replays, the front, the change to the file, and odd input."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin import traces
from idlewin.cli.app import main
from idlewin.cli.recorded import DELAYS, demo_rule, one_rule, recorded
from idlewin.cli.tuned import texts
from idlewin.core.load import History
from idlewin.core.score import NO_SCORE
from idlewin.core.window import Span, clipped, total, without
from idlewin.errors import UsageError
from idlewin.forecasters import METHODS
from idlewin.replay import remembered, replay
from idlewin.ruleedit import Change, edited
from idlewin.tune import Point, Tried, allowed, best, grid, suggested, usual
from idlewin.wiring import replayed
from tests.builders import HOUR, MINUTE, NOW, a_rule

DAY = timedelta(days=1)
SAMPLE = traces.sample()
#: Users come each day at eight, and at noon for an hour and once more.
ROWS = [
    row
    for day in range(5)
    for row in (
        f"one,{day * 1440 + 480},{day * 1440 + 600},",
        f"one,{day * 1440 + 720},{day * 1440 + 780},",
        f"one,{day * 1440 + 790},{day * 1440 + 795},",
    )
]
MANY = ",".join(f"{n}s" for n in range(1, 1002))


def code_of(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code


def a_trace(tmp_path, rows=ROWS, **about):
    path = tmp_path / "own.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(["card,start,end,demand", *rows]) + "\n")
    told = {"minutes": 5 * 1440, "test_from": 2 * 1440, **about}
    (tmp_path / "own.json").write_text(json.dumps(told))
    return path


@pytest.fixture
def rule(tmp_path):
    path = tmp_path / "my.yaml"
    shutil.copy(demo_rule(), path)
    return path


def test_each_point_is_a_replay_and_the_chosen_one_is_written(tmp_path, rule, monkeypatch, capsys):
    trace = a_trace(tmp_path)
    method = one_rule(rule)[1].forecast.method
    text = rule.read_text().replace("perWeek: 1", "perWeek: 0.001")
    rule.write_text(text.replace(f"method: {method}", f"method: {METHODS[0]}"))
    before, was = rule.read_text(), one_rule(rule)[1]
    monkeypatch.chdir(tmp_path)

    code = code_of(
        "tune", "my.yaml", "--trace", trace, "--vary", "forecast.budget=70%", "--pick", "2",
        "--write", "--json", "out.json", "--picture", "out.png", "--cores", "1",
    )  # fmt: skip

    assert code == 0
    told = json.loads((tmp_path / "out.json").read_text())
    (picked,) = [one for one in told["points"] if one["number"] == 2]
    assert picked["values"] == {"forecast.budget": "70%"}
    after = one_rule(rule)[1]
    budget = replace(was.forecast.budget, per_week=None, share=0.7)
    assert after == replace(was, forecast=replace(was.forecast, budget=budget))
    assert rule.read_text() == before.replace("perWeek: 0.001", "share: 70%")
    (case,) = recorded(after, trace, None)
    ours = replay(case, replayed, lambda _now, _phase: None).ours
    assert picked["harvested_hours"] == pytest.approx(ours.harvested / HOUR, abs=1e-3)
    assert (picked["late_returns"], picked["handovers"]) == (ours.late_returns, ours.handovers)
    assert ours.windows > 0
    out, aside = capsys.readouterr()
    assert aside.startswith("2 runs of 5 days on 1 core")
    assert "\n--- my.yaml\n+++ my.yaml\n@@ " in out
    assert out.endswith("{share: 70%}\nwritten: my.yaml\n")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_cards_are_summed_and_without_write_the_file_stays_as_it_is(tmp_path, rule, capsys):
    rows = [*ROWS, *(row.replace("one", "two") for row in ROWS)]
    before = rule.read_bytes()

    code = code_of(
        "tune", rule, "--trace", a_trace(tmp_path, rows), "--card", "one", "--card", "two",
        "--vary", "window.min=30m", "--json", tmp_path / "out.json", "--cores", "1",
    )  # fmt: skip

    assert code == 0
    assert rule.read_bytes() == before
    out, aside = capsys.readouterr()
    assert aside.startswith("2 runs of 5 days on 1 core")
    assert out.endswith("Point 1 is the rule as it is: nothing to change.\n")
    told = json.loads((tmp_path / "out.json").read_text())
    assert [one["card"] for one in told["cards"]] == ["one", "two"]
    assert told["card_weeks"] == pytest.approx(6 / 7, abs=1e-3)


def test_of_points_that_are_all_over_the_budget_none_is_marked_or_written(tmp_path, rule, capsys):
    text, _, rest = rule.read_text().partition("      demand:\n")
    rule.write_text(f"{text}      demand: CalendarOnly\n{rest[rest.index('      leadTime') :]}")
    before = rule.read_text()

    code = code_of(
        "tune", rule, "--trace", a_trace(tmp_path), "--vary", "window.min=15m", "--write",
        "--json", tmp_path / "out.json", "--picture", tmp_path / "out.png", "--cores", "1",
    )  # fmt: skip

    out = capsys.readouterr().out
    assert code == 0, out
    assert "No point is within the rule's budget." in out
    assert "*" not in out
    assert (
        "Nothing to suggest: the rule's budget allows 0.429 in 0.429 card-weeks, and every" in out
    )
    assert "CalendarOnly lends by its hours alone and looks at no budget" in out
    told = json.loads((tmp_path / "out.json").read_text())
    assert {one["suggested"] for one in told["points"]} == {False}
    assert rule.read_text() == before


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--vary", "window.mni=1h"], "did you mean 'window.min'?"),
        (["--vary", "budget=1"], "'budget' cannot be varied; did you mean 'forecast.budget'?"),
        (["--vary", "spec.mode=Act"], "cannot be varied; known here: forecast.budget"),
        (["--vary", "window.min=15"], "spec.window.min: '15' is not a duration"),
        (["--vary", "window.min=13h"], "spec.window.min: 13h is longer than window.max 12h"),
        (["--vary", "window.maxPerDay=two"], "spec.window.maxPerDay: 'two' is not a whole number"),
        (["--vary", "forecast.budget=few"], "'few' is no budget; write late returns a week"),
        (["--vary", "forecast.budget=0"], "spec.forecast.budget.perWeek: must be above 0"),
        (["--vary", "forecast.method=magic"], "forecast.method: no forecaster 'magic'; known"),
        (["--vary", "window.min"], "names no values; write window.min=15m,30m,1h"),
        (["--vary", "window.min=,1h"], "names no values"),
        (["--vary", "window.min=1h", "--vary", "window.min=2h"], "written twice"),
        (["--vary", f"window.min={MANY}"], "that would be 1,001 runs, more than 1,000"),
        (["--card", "two"], "there is no card 'two'; it has one"),
        (["--json", "/proc/none/out.json"], "cannot be made"),
        (["--demo"], "name a rule file and its history, or write --demo alone"),
    ],
)  # fmt: skip
def test_a_wrong_option_says_what_would_be_right(asked, said, tmp_path, rule, capsys):
    assert code_of("tune", rule, "--trace", a_trace(tmp_path), *asked) == 2
    assert said in capsys.readouterr().err


def test_a_rule_without_a_history_is_told_how_to_name_one(rule, capsys, monkeypatch):
    monkeypatch.delenv("IDLEWIN_PROMETHEUS", raising=False)

    assert code_of("tune", rule) == 2
    assert "name the history: --trace FILE.csv.gz --card NAME, or" in capsys.readouterr().err


def test_a_trace_of_many_cards_asks_which(rule, capsys):
    assert code_of("tune", rule, "--trace", SAMPLE) == 2
    assert "has 6 cards, and a rule has its own history; name it with --card: " in (
        capsys.readouterr().err
    )


def test_a_history_in_which_nobody_comes_back_judges_nothing(tmp_path, rule, capsys):
    trace = a_trace(tmp_path, rows=["one,0,60,"])

    assert code_of("tune", rule, "--trace", trace) == 2
    assert "no demand is known after 2026-01-07 00:00 UTC" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["tune", "replay"])
def test_faults_of_the_rule_are_told_as_check_tells_them(verb, tmp_path, rule, capsys):
    rule.write_text(
        rule.read_text().replace("idleFor: 10m", "idelFor: 10").replace("count: 1", "count: 0")
    )

    assert code_of(verb, rule, "--trace", a_trace(tmp_path)) == 2
    told = capsys.readouterr().err
    assert f"{rule}:10: spec.cards.count" in told
    assert f"{rule}:26: spec.window.idelFor" in told


def test_rules_of_a_replay_are_named_once_by_place_or_option(tmp_path, rule, capsys):
    trace = a_trace(tmp_path, rows=["one,0,60,"])

    assert code_of("replay", rule, "--rules", rule, "--trace", trace) == 2
    assert "name the rules once" in capsys.readouterr().err
    rule.write_text(rule.read_text().replace("count: 1", "count: 0"))
    assert code_of("replay", "--rules", rule, "--trace", trace) == 2
    assert f"{rule}:10: spec.cards.count" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["tune", "replay"])
def test_a_forecaster_that_is_not_there_is_an_error(verb, tmp_path, rule, capsys):
    method = one_rule(rule)[1].forecast.method
    rule.write_text(rule.read_text().replace(f"method: {method}", "method: magic"))

    assert code_of(verb, rule, "--trace", a_trace(tmp_path)) == 2
    assert "spec.forecast.method: no forecaster 'magic'; known here: " in capsys.readouterr().err


def test_a_prometheus_that_does_not_answer_is_told_as_such(rule, capsys):
    assert code_of("tune", rule, "--prometheus", "http://127.0.0.1:9") == 3
    told = capsys.readouterr().err
    assert "http://127.0.0.1:9: demo: nothing is known of its demand; " in told


def test_a_value_behind_an_alias_is_left_to_its_owner(rule):
    text = rule.read_text().replace("idleFor: 10m", "idleFor: &short 10m")
    rule.write_text(text.replace("minServing: 10m", "minServing: *short"))
    points, _ = grid(one_rule(rule)[1], {"window.minServing": ["0s"]})

    with pytest.raises(UsageError, match=r"cannot be changed here .* window.minServing: 0s"):
        texts(rule, Tried(point=points[-1], score=NO_SCORE))


def test_a_file_that_was_changed_meanwhile_is_left_alone(rule):
    points, _ = grid(one_rule(rule)[1], {"window.minServing": ["0s"]})
    rule.write_text(rule.read_text().replace("max: 12h", "max: 6h"))

    with pytest.raises(UsageError, match="it would not say what was replayed"):
        texts(rule, Tried(point=points[-1], score=NO_SCORE))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "spec:\n  serving:\n    - query: |\n        sum(x)\n\n# the end\n",
            "spec:\n  serving:\n    - query: |\n        sum(x)\n  window: {min: 1h}\n\n# the end\n",
        ),
        (
            "spec:\n  cards:\n    activity: # none\n# the end\n",
            "spec:\n  cards:\n    activity: # none\n  window: {min: 1h}\n# the end\n",
        ),
    ],
)
def test_a_new_key_stands_before_what_follows_its_mapping(before, after):
    change = Change(path=("spec", "window", "min"), value="1h")

    assert edited(before, [change]) == after


# -- the grid, and what is worth choosing


def test_the_usual_grid_varies_budget_shortest_window_and_method():
    demo = one_rule(demo_rule())[1]
    vary = usual(demo)

    assert vary["forecast.budget"] == ("0.5", "1", "2")
    assert vary["window.min"] == ("15m", "30m", "1h")
    assert set(METHODS) >= set(vary["forecast.method"])
    points, left_out = grid(demo, vary)
    assert len(points) == 9 * len(vary["forecast.method"])
    assert points[0].differs == ()
    assert left_out == []


def test_combinations_that_are_no_rule_are_left_out_and_told():
    demo = one_rule(demo_rule())[1]
    points, left_out = grid(demo, {"window.min": ["30m", "4h"], "window.max": ["3h", "6h"]})

    assert len(points) == 4  # the rule as it is, and three of four
    (why,) = left_out
    assert why.startswith("window.min 4h, window.max 3h: spec.window.min: 4h is longer than")


def a_try(hours, late, handovers, differs=()):
    score = replace(NO_SCORE, harvested=hours * HOUR, late_returns=late, handovers=handovers)
    return Tried(point=Point(rule=a_rule(), values={}, differs=differs), score=score)


def test_of_points_that_come_to_the_same_the_nearest_to_the_rule_is_kept():
    far, near = a_try(3, 0, 2, ("window.min", "window.max")), a_try(3, 0, 2, ("window.min",))

    assert best([far, near, a_try(2, 0, 2)]) == [near]


def test_the_suggestion_is_the_most_harvest_within_the_budget_and_none_beyond_it():
    few, some, many = front = [a_try(3, 1, 2), a_try(5, 2, 2), a_try(9, 4, 2)]

    assert suggested(front, 2) is some
    assert suggested(front, 9) is many
    assert suggested(front, 1) is few
    assert suggested(front, 0) is None


# -- the history


def test_a_share_allows_so_many_of_the_returns_that_follow_half_an_hour(tmp_path):
    (case,) = recorded(a_rule(), a_trace(tmp_path), None)
    budget = replace(a_rule().forecast.budget, per_week=None, share=0.5)
    sharing = replace(a_rule(), forecast=replace(a_rule().forecast, budget=budget))

    assert allowed(sharing, [case]) == 3.0  # two a day, over three days
    assert allowed(a_rule(), [case]) == pytest.approx(3 / 7)


def test_what_is_unknown_at_an_end_was_never_recorded():
    covers = Span(NOW - 28 * DAY, NOW)
    known = Span(NOW - 20 * DAY, NOW - HOUR)
    hole = Span(NOW - 3 * DAY, NOW - 2 * DAY)
    unknown = (Span(covers.start, known.start), hole, Span(known.end, NOW))

    case = remembered("own", a_rule(), History(covers=covers, unknown=unknown), DELAYS)

    assert case.covers == known
    assert case.unknown == (hole,)
    assert case.judged == Span(known.start + 7 * DAY, known.end)


def test_half_of_a_short_history_is_to_learn_from():
    covers = Span(NOW - 28 * DAY, NOW)
    unknown = (Span(covers.start, NOW - 4 * DAY),)

    case = remembered("own", a_rule(), History(covers=covers, unknown=unknown), DELAYS)

    assert case.judged == Span(NOW - 2 * DAY, NOW)


@pytest.mark.parametrize(
    ("days", "said"), [(0, "nothing is known"), (1, "1d of its demand are known")]
)
def test_too_short_a_history_is_told(days, said):
    covers = Span(NOW - 28 * DAY, NOW)
    unknown = (Span(covers.start, NOW - days * DAY),)

    with pytest.raises(ValueError, match=said):
        remembered("own", a_rule(), History(covers=covers, unknown=unknown), DELAYS)


def test_nothing_is_lent_while_the_history_knows_nothing(tmp_path):
    (case,) = recorded(one_rule(demo_rule())[1], a_trace(tmp_path), None)
    forecast = replace(case.rule.forecast, method="oracle")
    case = replace(case, rule=replace(case.rule, forecast=forecast))
    hole = Span(case.judged_from + 14 * HOUR, case.judged_from + 30 * HOUR)

    whole = replay(case, replayed, lambda _now, _phase: None)
    holed = replay(replace(case, unknown=(hole,)), replayed, lambda _now, _phase: None)

    given_back = Span(hole.start + 30 * MINUTE, hole.end)
    assert total(clipped(whole.batch, given_back)) > 10 * HOUR
    assert clipped(holed.batch, given_back) == ()
    assert holed.idle == whole.idle - total(without((hole,), case.busy))
