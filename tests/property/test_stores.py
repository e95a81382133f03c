"""Laws of what is known of the cluster: the newest wins, in whatever order it arrives."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings, strategies as st

from idlewin.adapters.claims import Claims
from idlewin.adapters.returning import Returning, UnaskedMetrics
from idlewin.adapters.store import Store
from idlewin.core.decide import decide
from idlewin.core.decision import ScaleToZero, SetStopPolicy
from idlewin.core.load import Level, Load, judge
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.situation import Situation
from tests.builders import NOW, a_lowered_target, a_pool, a_situation, away, with_rule
from tests.property.test_core import situations
from tests.unit.asking import Store as Rules

Json = dict[str, Any]
Event = tuple[str, Json]
some = settings(max_examples=200, deadline=None)


def history(kinds: list[str]) -> list[Event]:
    """What became of one object, version by version; deleted, it may be made anew."""
    events: list[Event] = []
    there, life = False, 0
    for version, kind in enumerate(kinds, 1):
        life += not there
        meta = {"name": "x", "uid": f"u{life}", "resourceVersion": str(version)}
        deleted = there and kind == "delete"
        events.append(("DELETED" if deleted else "MODIFIED", {"metadata": meta, "n": version}))
        there = not deleted
    return events


def at(events: list[Event], position: int) -> Json | None:
    """The object as it was after so many events."""
    kind, raw = events[position - 1] if position else ("DELETED", {})
    return None if kind == "DELETED" else deepcopy(raw)


@some
@given(
    st.lists(st.sampled_from(["write", "write", "delete"]), min_size=1, max_size=8),
    st.lists(
        st.tuples(
            st.integers(0, 8), st.integers(0, 8), st.sampled_from(["answer", "list", "part"])
        ),
        max_size=8,
    ),
)
def test_what_is_stored_never_goes_back_whatever_answer_comes_late(kinds, late):
    """The watch tells in order; answers to reads and writes come when they come."""
    events, store = history(kinds), Store(lambda raw: raw)
    for position, (kind, raw) in enumerate(events, 1):
        for when, of, how in late:
            if when == position and of <= position:
                answer(store, at(events, of), of, how)
        if kind == "DELETED":
            store.deleted(deepcopy(raw))
        else:
            store.upsert(deepcopy(raw))
        for when, of, how in late:
            if when == position - 1 and of <= position:
                answer(store, at(events, of), of, how)
        assert store.get("", "x") == at(events, position)


def answer(store: Store, raw: Json | None, version: int, how: str) -> None:
    """A read's answer, as late as it may be: of the object, of the whole list, of a selection."""
    if how == "answer" and raw is not None:
        store.upsert(raw)
    elif how == "list" and version:
        store.replace([([raw] if raw else [], str(version))])
    elif how == "part" and version:
        store.replace([([raw] if raw else [], str(version))], store.all())


class Moment:
    """A clock."""

    def __init__(self, after: timedelta) -> None:
        self.after = after

    def now(self) -> Any:
        return NOW + self.after


@some
@given(
    st.lists(
        st.tuples(
            st.integers(1, 5000),
            st.floats(0, 5000).map(lambda seconds: timedelta(seconds=seconds)),
            st.integers(0, 6),
            st.sampled_from(["", "", "no"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_claim_that_is_answered_holds_and_none_is_ever_shortened(claims):
    rules = Rules("b580")
    for seconds, when, conflicts, refuses, down in claims:
        rules.conflicts, rules.refuses, rules.down = conflicts, refuses, down
        before = rules.claims["b580"]
        length = timedelta(seconds=seconds)

        claim = Claims(rules, Moment(when)).claim("b580", length)

        after = rules.claims["b580"]
        assert before is None or after >= before
        if claim.holds:
            assert after is not None
            assert claim.until == after >= NOW + when + length
        else:
            assert after == before
        assert claim.holds or refuses or down or conflicts >= 4


class Shown:
    """A cluster that has one rule, or none."""

    def __init__(self, rule: Any) -> None:
        self._rule = rule

    def rule(self, _name: str) -> Any:
        return self._rule


def left_to_us(s: Situation, *, gone: bool) -> Situation:
    """The same, as it looks to who only gives back."""
    name = s.object.name
    shown: Any = Shown(None if gone else s.object)
    cluster = Returning(shown, [name], [name] if gone else [])
    rule: Any = cluster.rule(name)
    level, why = Level.IDLE, "never asked"
    if s.rule:
        level, why = judge(UnaskedMetrics(Moment(timedelta())).read(s.rule))
    return replace(s, object=rule, load=Load(level=level, since=NOW, why=why))


begun = st.sampled_from([a_situation(), away(Phase.YIELDING), away(Phase.HARVESTING)])


@settings(max_examples=80, deadline=None)
@given(st.one_of(begun, situations()), st.booleans())
def test_who_only_gives_back_gives_nothing_away(s, gone):
    if s.rule is None and not gone:
        return
    asked = left_to_us(s, gone=gone)
    decision = decide(asked)

    assert decision.after not in (Phase.YIELDING, Phase.HARVESTING)
    for action in decision.actions:
        assert not isinstance(action, ScaleToZero)
        assert not isinstance(action, SetStopPolicy) or action.policy is not StopPolicy.NONE
    assert gone or asked.load.level is Level.UNKNOWN


@settings(max_examples=20, deadline=None)
@given(situations())
def test_what_a_rule_that_is_gone_has_left_is_given_back(s):
    s = with_rule(s, status=None, rule=None)
    s = replace(s, pool=a_pool(targets=(a_lowered_target(),)))

    assert decide(left_to_us(s, gone=True)).after is Phase.RECLAIMING
