"""Pictures are really drawn, and say what is missing where they cannot be."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from idlewin.backtest.peers import PEERS
from idlewin.core.forecast import Forecast
from idlewin.core.rule import METHODS
from idlewin.core.score import reactive, score, waits
from idlewin.core.window import Span
from idlewin.picture import PictureError, front
from idlewin.picture.curves import draw as draw_curves
from idlewin.picture.days import Days, draw, figures, local_days
from idlewin.picture.forecast import Drawn, _marks, draw as draw_forecast
from idlewin.traces import about, busy_spans, load, sample


def the_days(zone: str = "UTC", card: str = "language/m-mid#98") -> Days:
    told = about(sample())
    busy = busy_spans(load(sample())[card], told.origin)
    over = Span(told.origin, told.origin + timedelta(minutes=told.minutes or 0))
    timeline = reactive(busy, over)
    return Days(
        card=card,
        method="reactive",
        over=over,
        busy=busy,
        batch=timeline.batch,
        late=tuple(wait.start for wait in waits(busy, timeline, over)),
        score=score(busy, timeline, over),
        zone=zone,
    )


def test_a_picture_is_a_png_1200_pixels_wide_with_the_colours_of_demand_and_batch(
    tmp_path: Path,
) -> None:
    from matplotlib.image import imread

    draw(the_days(), tmp_path / "days.png")

    pixels = imread(tmp_path / "days.png")
    colours = {tuple(c) for c in (pixels[..., :3] * 255).round().astype(int).reshape(-1, 3)}
    assert pixels.shape[1] == 1200
    assert {(0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00), (0xB2, 0x22, 0x22)} <= colours


def test_rows_are_days_of_the_zone_and_a_clock_change_makes_one_shorter() -> None:
    start = datetime(2026, 3, 27, 23, tzinfo=UTC)
    over = Span(start, start + timedelta(days=3))
    days = the_days("Europe/Vienna")

    rows = local_days(
        Days(
            card=days.card,
            method=days.method,
            over=over,
            busy=(),
            batch=(),
            late=(),
            score=days.score,
            zone=days.zone,
        )
    )

    assert [row.length / timedelta(hours=1) for row in rows] == [24, 23, 24, 24]


def test_a_score_is_told_with_its_share_of_the_oracle() -> None:
    told = figures(the_days().score)

    assert "h harvested of the oracle's 205.4 h (94%)" in told
    assert "118 late returns" in told


def test_without_matplotlib_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(PictureError, match=r"pip install 'idlewin\[pictures\]'"):
        draw(the_days(), tmp_path / "days.png")


def test_a_picture_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="no-such-folder"):
        draw(the_days(), tmp_path / "no-such-folder" / "days.png")


def an_outlook(**changes: Any) -> Drawn:
    start = datetime(2026, 3, 28, 22, 40, tzinfo=UTC)
    steps = tuple((timedelta(minutes=5 * n), 0.99**n) for n in range(1, 289))
    made = Forecast(method="hazard", made_at=start, chances=steps, rests_on="9 d of history")
    outlook = Drawn(
        rule="b580",
        forecast=made,
        idle_since=start - timedelta(hours=1),
        lent=True,
        reclaim_at=start + timedelta(hours=6),
        wanted_at=start + timedelta(hours=6, minutes=20),
        zone="Europe/Vienna",
    )
    return replace(outlook, **changes)


def test_a_picture_of_a_forecast_has_the_chance_and_both_ends_of_the_window(
    tmp_path: Path,
) -> None:
    from matplotlib.image import imread

    outlook = an_outlook()
    draw_forecast(outlook, tmp_path / "b580.png")

    pixels = imread(tmp_path / "b580.png")
    colours = {tuple(c) for c in (pixels[..., :3] * 255).round().astype(int).reshape(-1, 3)}
    assert pixels.shape[1] == 1000
    assert (0x00, 0x72, 0xB2) in colours
    # The night of the clock change: six hours after 23:40 it is 06:40.
    assert [mark[3] for mark in _marks(outlook)] == [
        "lent: giving back begins Sun 06:40",
        "serving is wanted ready Sun 07:00",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reclaim_at": None, "wanted_at": None}, []),
        ({"lent": False, "reclaim_at": datetime(2026, 3, 28, 22, 39, tzinfo=UTC)}, []),
        (
            {"lent": False},
            ["if lent now: giving back begins Sun 06:40", "serving is wanted ready Sun 07:00"],
        ),
    ],
)
def test_what_would_not_be_lent_has_no_marks(changes: Any, words: list[str]) -> None:
    assert [mark[3] for mark in _marks(an_outlook(**changes))] == words


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("chances", [((timedelta(days=15), 1.0),), ()])
def test_a_day_is_drawn_where_more_is_foretold_or_the_calendar_alone_decides(
    chances: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("idlewin.picture.forecast.save", lambda figure, _: drawn.append(figure))
    told = replace(an_outlook().forecast, chances=chances)

    draw_forecast(an_outlook(forecast=told, wanted_at=None), tmp_path / "b580.png")

    assert drawn[0].axes[0].get_xlim() == (0, 24)
    assert len(drawn[0].axes[0].get_xticks()) <= 9


def test_the_hours_of_the_axis_are_those_of_the_zone_across_a_clock_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("idlewin.picture.forecast.save", lambda figure, _: drawn.append(figure))

    draw_forecast(an_outlook(), tmp_path / "b580.png")

    axes = drawn[0].axes[0]
    ticks = zip(
        axes.get_xticks(), [text.get_text() for text in axes.get_xticklabels()], strict=True
    )
    assert [(round(at, 2), told) for at, told in ticks][:3] == [
        (0.33, "00:00"),
        (2.33, "03:00"),
        (5.33, "06:00"),
    ]


def test_the_picture_of_a_tuned_rule_marks_the_rule_even_where_nothing_was_lent(
    tmp_path: Path,
) -> None:
    from matplotlib.image import imread

    nothing = front.Dot(late=0.0, harvested=0.0, handovers=0.0, number=1, now=True, suggested=True)
    front.draw([nothing], "own", 1.0, tmp_path / "one.png")
    front.draw(
        [nothing, replace(nothing, late=2.0, number=None, now=False, suggested=False)],
        "own",
        None,
        tmp_path / "two.png",
    )

    for name in ("one.png", "two.png"):
        pixels = imread(tmp_path / name)
        colours = {tuple(c) for c in (pixels[..., :3] * 255).round().astype(int).reshape(-1, 3)}
        assert {(0xB2, 0x22, 0x22), (0, 0, 0)} <= colours


@pytest.mark.parametrize("traces", [1, 2, 3])
def test_the_legend_of_a_backtest_is_within_the_picture(
    traces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("idlewin.picture.curves.save", lambda figure, _: drawn.append(figure))
    ours = dict.fromkeys(METHODS, SimpleNamespace(points=((0.25, 0.1), (1.0, 0.4)), causal=True))
    peers = {
        peer.name: SimpleNamespace(points=((0.25, 0.1), (1.0, 0.3)), causal=False) for peer in PEERS
    }

    draw_curves({f"trace {n}": {**ours, **peers} for n in range(traces)}, tmp_path / "a.png")

    drawn[0].savefig(tmp_path / "a.png")
    (legend,) = drawn[0].legends
    box, whole = legend.get_window_extent(), drawn[0].bbox
    assert len(legend.get_texts()) == len(METHODS) + len(PEERS)
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1


def test_a_policy_that_is_another_one_is_drawn_thin_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("idlewin.picture.curves.save", lambda figure, _: drawn.append(figure))
    one = SimpleNamespace(points=((0.25, 0.1), (1.0, 0.4)), causal=True)
    other = SimpleNamespace(points=((0.25, 0.1), (1.0, 0.3)), causal=True)
    apart = SimpleNamespace(points=((0.5, 0.1),), causal=True)

    draw_curves({"a": {"boosted": one, "hazard": apart, "auto": other}}, tmp_path / "a.png")

    boosted, hazard, auto = drawn[0].axes[0].get_lines()[:3]
    assert auto.get_linewidth() < boosted.get_linewidth() == hazard.get_linewidth()
