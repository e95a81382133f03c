"""The page of a replay: whole by itself, well-formed, every rule in it, nothing unescaped."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from idlewin.cli.replay_page import Replayed, part
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.score import Timeline, waits
from idlewin.core.window import Span
from idlewin.picture.page import page
from idlewin.replay import Result
from tests.builders import NOW, a_rule
from tests.unit.test_replay_told import HOUR, a_result

VOID = {"meta", "br", "hr", "img", "link", "input"}
EVIL = """</title><script src="http://evil.example/x.js">alert('1')</script>&"""


class Read(HTMLParser):
    """What a browser would find: tags that close in order, text, and what is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        fetches = ("src", "srcset", "data", "poster", "xlink:href")
        self.fetched += [value for name, value in attrs if name in fetches]
        self.fetched += [v for name, v in attrs if name == "href" and not v.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.said.append(data)


def a_replayed(name: str, result: Result | None = None) -> Replayed:
    result = result or a_result(late=1, kept=[Reason.CALENDAR_CLOSED], rule=a_rule())
    return Replayed(name=name, rule=result.case.rule, results=[result])


def read(*parts: Replayed, history: str = "Demand: recorded.") -> tuple[Read, str]:
    text = page([part(one) for one in parts], history)
    return Read(text), " ".join(" ".join(Read(text).said).split())


def test_a_page_is_well_formed_and_whole_by_itself():
    found, _ = read(a_replayed("b580"), a_replayed("office"))

    assert found.open == []
    assert found.fetched == []
    assert "script" not in found.tags
    assert found.tags.count("svg") == 2
    text = page([part(a_replayed("b580"))], "Demand: recorded.")
    assert not [word for word in ("http://", "https://", "@import", "url(") if word in text]
    assert "prefers-color-scheme: dark" in text


def test_a_page_names_every_rule_and_each_figure_with_its_unit():
    _, told = read(a_replayed("b580"), a_replayed("office"))

    assert "Rule b580" in told
    assert "Rule office" in told
    for words in (
        "idle 108 h",
        "lent 9 h",
        "of the oracle 0%",
        "windows 1",
        "late returns 1",
        "longest wait 0 min",
        "the budget is 1 in this time",
        f"CalendarClosed 1 h {Reason.CALENDAR_CLOSED.meaning}",
    ):
        assert words in told


def test_a_name_from_outside_is_text_wherever_it_stands():
    result = a_result(kept=[Reason.LOAD_BUSY])
    evil = replace(result, case=replace(result.case, card=EVIL))

    found, told = read(a_replayed(EVIL, evil), history=EVIL)

    assert "script" not in found.tags
    assert found.open == []
    assert told.count(EVIL) >= 3


def test_the_same_results_give_the_same_page():
    assert page([part(a_replayed("b580"))], "") == page([part(a_replayed("b580"))], "")


def test_more_late_returns_than_the_budget_are_marked():
    assert "bad" in page([part(a_replayed("b580", a_result(late=2)))], "").partition("</style>")[2]
    assert "value bad" not in page([part(a_replayed("b580", a_result(late=1)))], "")


def test_a_late_return_stands_at_its_hour_with_its_wait():
    wait = Span(NOW + 3 * HOUR, NOW + 3 * HOUR + timedelta(minutes=7))

    _, told = read(a_replayed("b580", replace(a_result(late=1), waits=(wait,))))

    assert "longest wait 7 min" in told
    assert f"{wait.start:%a %d %b %Y %H:%M} 7 min" in told


def test_what_was_not_recorded_is_left_blank():
    result = a_result()
    over = result.over
    blank = replace(result, case=replace(result.case, unknown=(over,)))

    assert 'class="idle"' in page([part(a_replayed("b580", result))], "")
    assert 'class="idle"' not in page([part(a_replayed("b580", blank))], "")


@pytest.mark.parametrize("back", [20, 90])
def test_a_user_waits_from_the_first_request_until_serving_is_back(back):
    minute = timedelta(minutes=1)
    busy = (Span(NOW + 10 * minute, NOW + 12 * minute), Span(NOW + 15 * minute, NOW + 100 * minute))
    timeline = Timeline(
        phases=(
            (NOW, Phase.SERVING),
            (NOW + minute, Phase.YIELDING),
            (NOW + 2 * minute, Phase.HARVESTING),
            (NOW + back * minute, Phase.SERVING),
        )
    )

    assert waits(busy, timeline, Span(NOW, NOW + 2 * HOUR)) == (
        Span(NOW + 10 * minute, NOW + back * minute),
    )
