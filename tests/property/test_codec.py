"""Whatever can be said in a rule or a status comes back as it was."""

from __future__ import annotations

import json
import string
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import get_args, get_origin, get_type_hints

from hypothesis import given, settings, strategies as st

from idlewin.codec import (
    read_record,
    read_rule,
    read_status,
    status_patch,
    write_record,
    write_rule,
    write_status,
)
from idlewin.core.calendar import Calendar
from idlewin.core.pool import Record
from idlewin.core.rule import (
    Activity,
    Batch,
    Budget,
    Cards,
    Contract,
    DayTypes,
    ForecastPolicy,
    Mode,
    OnReturn,
    QueueClass,
    Rule,
    WindowPolicy,
)
from idlewin.core.status import Status
from idlewin.core.target import CompletionProbe, Demand, HttpProbe, Probe, Serving

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Text of any kind, as no schema forbids it; lone surrogates are no JSON.
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAME = st.text(string.ascii_lowercase, min_size=1, max_size=5)
LABELS = st.dictionaries(TEXT, TEXT, max_size=2)
LONG = st.integers(1, 10**10).map(lambda ms: timedelta(milliseconds=ms))
SPANS = st.sampled_from(["Sun-Thu 22:00-07:00", "Sat,Sun", "12:00-13:00", "Fri 22:00-24:00"])
NUMBER = st.floats(0, 1e9) | st.integers(0, 9)

DEMANDS = st.builds(
    Demand, source=NAME, match=LABELS, busy_above=NUMBER, query=st.none(), up=st.none()
) | st.builds(
    Demand,
    query=TEXT,
    up=st.none() | TEXT,
    busy_above=NUMBER,
    visible_at_zero=st.none() | st.booleans(),
    source=st.none(),
)
TARGETS = st.builds(
    Serving,
    api_version=NAME,
    kind=NAME,
    namespace=NAME,
    name=NAME,
    demand=st.just("CalendarOnly") | st.lists(DEMANDS, min_size=1, max_size=2).map(tuple),
    lead_time=st.just("Auto") | LONG,
    ready_timeout=LONG,
    probe=st.none()
    | st.builds(
        Probe,
        http=st.builds(HttpProbe, url=NAME.map("http://{}".format), expect=st.integers(100, 599)),
    )
    | st.builds(
        Probe,
        completion=st.builds(
            CompletionProbe, url=NAME.map("http://{}/v1/completions".format), model=NAME
        ),
    ),
)
QUEUES = st.builds(
    QueueClass,
    cluster_queue=NAME,
    max_runtime=LONG,
    contract=st.none() | st.sampled_from(Contract),
    grace=LONG,
)
WINDOWS = st.tuples(LONG, LONG).flatmap(
    lambda pair: st.builds(
        WindowPolicy,
        min=st.just(min(pair)),
        max=st.just(max(pair)),
        idle_for=LONG,
        max_per_day=st.integers(1, 99),
        calendar=st.builds(
            Calendar,
            time_zone=st.sampled_from(["UTC", "Europe/Vienna", "Pacific/Auckland"]),
            allow=st.lists(SPANS, max_size=3).map(tuple),
            deny=st.just(()) | st.just(("2026-12-24T18:00/2026-12-27T06:00",)),
        ),
    )
)
SHARES = st.floats(0, 1, exclude_min=True)
BUDGETS = st.builds(Budget, per_week=st.floats(1e-9, 1e9)) | st.builds(Budget, share=SHARES)
RULES = st.builds(
    Rule,
    mode=st.sampled_from(Mode),
    cards=st.builds(
        Cards,
        resource=NAME.map("vendor.example/{}".format),
        count=st.integers(1, 99),
        node_selector=st.dictionaries(NAME, TEXT, min_size=1, max_size=2),
        activity=st.none() | st.builds(Activity, source=NAME, match=LABELS),
    ),
    serving=st.lists(TARGETS, min_size=1, max_size=2, unique_by=lambda one: one.ref).map(tuple),
    batch=st.builds(
        Batch,
        queues=st.lists(
            QUEUES, min_size=1, max_size=2, unique_by=lambda one: one.cluster_queue
        ).map(tuple),
        on_return=st.sampled_from(OnReturn),
        drain_timeout=LONG,
    ),
    window=WINDOWS,
    forecast=st.builds(
        ForecastPolicy,
        method=NAME,
        budget=BUDGETS,
        day_types=st.builds(DayTypes, holidays=st.none() | TEXT),
    ),
    stale_after=LONG,
    paused=st.booleans(),
)

PLAIN = {
    str: TEXT,
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    type(None): st.none(),
    timedelta: LONG,
    datetime: st.integers(0, 10**16).map(lambda us: EPOCH + timedelta(microseconds=us)),
    dict[str, str]: LABELS,
    QueueClass: QUEUES,
}


def values_of(kind):
    """Values of a class of the core, from the types of its fields."""
    if kind in PLAIN:
        return PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=2).map(tuple)
    if arms := get_args(kind):
        return st.one_of(*(values_of(arm) for arm in arms))
    return st.builds(
        kind, **{n: values_of(t) for n, t in get_type_hints(kind).items() if n[0] != "_"}
    )


STATUSES = values_of(Status)


@given(RULES)
@settings(max_examples=100, deadline=None)
def test_a_rule_comes_back_as_it_was(rule):
    assert read_rule(json.loads(json.dumps(write_rule(rule)))) == rule


@given(STATUSES)
@settings(max_examples=100, deadline=None)
def test_a_status_comes_back_as_it_was(status):
    assert read_status(json.loads(json.dumps(write_status(status)))) == (status, "")


def merged(document, patch):
    """JSON merge patch, word for word from RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    document = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        else:
            document[name] = merged(document.get(name), value)
    return document


@given(st.none() | STATUSES, STATUSES)
@settings(max_examples=100, deadline=None)
def test_a_patch_makes_the_one_status_of_the_other(before, after):
    stored = write_status(before) if before else {}

    patched = merged(stored, status_patch(before, after))

    assert read_status(patched) == (after, "")
    assert patched == write_status(after)


@given(values_of(Record))
def test_a_record_comes_back_as_it_was(record):
    assert read_record(write_record(record)) == (record, "")
