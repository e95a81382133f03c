"""How young a night is to a forecast: as old as the last demand, whatever else was not known."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, strategies as st

from idlewin.core.load import History, Reading
from idlewin.core.target import Demand, LlamaSwap
from idlewin.core.window import Span
from idlewin.observe import CARDS, Observer
from tests.builders import MINUTE, NOW, a_forecast, a_pool, a_situation

HOUR = 60 * MINUTE
LAST = Span(NOW - 11 * HOUR, NOW - 10 * HOUR)
RULE = a_situation().object
#: What a look shows of demand and of the cards: nobody, batch at work, nothing that is known.
quiet = st.tuples(st.sampled_from([0.0, None]), st.sampled_from([0.0, 1.0, None]))


class Night:
    """A clock, metrics, a cluster and a forecaster; looks ten minutes apart, the last one idle."""

    def __init__(self) -> None:
        self.at, self.shows, self.cards, self.asked = NOW, 0.0, 0.0, None
        self.history_of = lambda covers: History(covers=covers, busy=(LAST,))
        self.observer = Observer(self, self, self, self)

    def now(self):
        return self.at

    def names(self):
        return []

    def look(self, _scope, **_how):
        return a_pool()

    def read(self, rule):
        shown = {"busy_above": 0.0, "visible_at_zero": True}
        name = str(rule.serving[0].ref)
        return (
            Reading(target=name, name="waiting", value=self.shows, **shown),
            Reading(target=CARDS, name="activity", value=self.cards, **shown),
        )

    def history(self, _rule, past, _step):
        return self.history_of(Span(self.at - past, self.at))

    def forecast(self, _rule, _history, now, idle_since):
        self.asked = idle_since
        return replace(a_forecast(), made_at=now)

    def goes_by(self, looks, rule=RULE):
        """What is asked for at the end; the looks' own times are told, too."""
        times = []
        for self.shows, self.cards in [*looks, (0.0, 0.0)]:
            self.observer.situation(rule)
            times.append(self.at)
            self.at += 10 * MINUTE
        return self.asked, times


@given(st.lists(quiet, max_size=8))
def test_a_night_is_no_younger_because_nothing_was_known_for_a_moment_or_batch_ran(looks):
    asked, _ = Night().goes_by(looks)

    assert asked == LAST.end


@given(st.lists(quiet, max_size=4), st.lists(quiet, max_size=4))
def test_users_that_are_seen_begin_it_anew_before_any_history_shows_them(before, after):
    asked, times = Night().goes_by([*before, (1.0, 0.0), *after])

    assert asked == times[len(before)]


@given(st.integers(1, 9), st.lists(quiet, max_size=4))
def test_a_stretch_of_the_past_of_which_nothing_is_known_begins_it_anew(hours, looks):
    night = Night()
    gap = Span(NOW - hours * HOUR, NOW - (hours - 0.5) * HOUR)
    night.history_of = lambda covers: History(covers=covers, busy=(LAST,), unknown=(gap,))

    assert night.goes_by([(0.0, 0.0), *looks])[0] == gap.end


def unknown(look):
    shows, cards = look
    return cards != 1.0 and None in (shows, cards)


@given(st.lists(quiet, max_size=6))
def test_what_no_history_tells_of_is_idle_since_it_was_looked_for_at_most(looks):
    (serving,) = RULE.rule.serving
    stream = Demand(llama_swap=LlamaSwap(url="http://swap:8080"))
    streamed = replace(serving, demand=(*serving.demand, stream))
    rule = replace(RULE, rule=replace(RULE.rule, serving=(streamed,)))

    asked, times = Night().goes_by(looks, rule)

    # What is unknown at two looks in a row is so for longer than a server takes to come or go.
    pairs = zip(times[1:], looks, looks[1:], strict=False)
    blind = [at for at, a, b in pairs if unknown(a) and unknown(b) and b[0] is None]
    assert asked == max([NOW, *blind])
