"""Laws of drains, and of what is stopped and given back below a queue: late, or over another's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given, strategies as st

from idlewin.core.decision import (
    ReopenLocalQueue,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import ADOPTED_BY, EPOCH, LEFT, MANAGER, LocalQueue, StopPolicy
from tests.property.server import mark
from tests.property.test_writes import (
    LOCAL,
    QUEUE,
    RULE,
    WORK,
    Place,
    epochs,
    maybe,
    policies,
    policy,
    some,
)

stops = st.sampled_from([StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])


def active(place: Place) -> Any:
    return place.server.get(WORK)["spec"].get("active", True)


def is_at(place: Place, epoch: int | None) -> None:
    """How far others have gone on with the rule; None: it is gone."""
    if epoch is None:
        del place.server.objects[RULE]
    else:
        place.person(RULE, {"status": {"epoch": epoch}}, MANAGER)


@some
@given(epochs, epochs, policies, maybe)
def test_a_drain_of_an_older_epoch_is_refused_and_a_hold_wins(late, there, stop, lags):
    assume(stop is not StopPolicy.NONE)
    place = Place()
    closing = SetStopPolicy("short", "q", stop, late, "b580")
    opening = SetStopPolicy("short", "q", StopPolicy.NONE, there, "b580")
    seen = place.server.get(QUEUE)
    place.apply(opening)
    if lags:
        place.stores.queues.upsert(seen)

    verdict = place.apply(closing).verdict

    refused = stop is StopPolicy.HOLD_AND_DRAIN and late < there
    assert verdict is (Verdict.REFUSED if refused else Verdict.DONE)
    assert policy(place.server.get(QUEUE)) == ("None" if refused else stop.value)
    assert mark(place.server.get(QUEUE), EPOCH) == str(max(late, there)), "the fence stays up"


@some
@given(stops, epochs, st.one_of(st.none(), epochs), maybe)
def test_who_comes_late_closes_nothing_that_a_person_opened_since(stop, late, now, lags):
    place = Place()
    seen = place.server.get(QUEUE)
    place.apply(SetStopPolicy("short", "q", StopPolicy.HOLD, late, "b580"))
    place.person(QUEUE, {"spec": {"stopPolicy": "None"}})
    place.watch()
    if lags:
        place.stores.queues.upsert(seen)
    is_at(place, now)

    verdict = place.apply(SetStopPolicy("short", "q", stop, late, "b580")).verdict

    gone_on = now is not None and late < now
    assert verdict is (Verdict.REFUSED if gone_on else Verdict.DONE)
    assert policy(place.server.get(QUEUE)) == ("None" if gone_on else stop.value)


@some
@given(stops, epochs, st.one_of(st.none(), epochs), st.sampled_from(["", "other"]), maybe)
def test_who_comes_late_closes_nothing_that_is_not_the_rules_any_more(stop, late, now, owner, lags):
    place = Place()
    undone = {ADOPTED_BY: owner, EPOCH: None, LEFT: "None" if owner else None}
    place.person(QUEUE, {"metadata": {"annotations": undone}, "spec": {"stopPolicy": "None"}})
    if not lags:
        place.watch()
    is_at(place, now)

    verdict = place.apply(SetStopPolicy("short", "q", stop, late, "b580")).verdict

    gone_on = now is None or late < now
    assert verdict is (Verdict.REFUSED if gone_on else Verdict.DONE)
    assert policy(place.server.get(QUEUE)) == ("None" if gone_on else stop.value)


@some
@given(epochs, epochs, maybe)
def test_who_comes_after_a_return_closes_no_local_queue(late, back, was_closed):
    place = Place()
    seen = LocalQueue(namespace="batch", name="lq", uid="l", stop_policy=StopPolicy.NONE)
    closing = StopLocalQueue(seen, "short", StopPolicy.HOLD, late)
    if was_closed:
        place.apply(closing)
    for epoch in (back, 1):
        place.apply(ReopenLocalQueue("batch", "lq", "l", "Hold", "None", epoch, "b580"))
    place.watch()

    verdict = place.apply(closing).verdict

    assert verdict is (Verdict.REFUSED if back > late else Verdict.DONE)


@some
@given(epochs, st.one_of(st.none(), epochs))
def test_who_comes_late_opens_no_local_queue(late, now):
    place = Place()
    place.person(LOCAL, {"spec": {"stopPolicy": "Hold"}}, MANAGER)
    is_at(place, now)

    give = ReopenLocalQueue("batch", "lq", "l", "Hold", "None", late, "b580")
    verdict = place.apply(give).verdict

    gone_on = now is not None and late < now
    assert verdict is (Verdict.REFUSED if gone_on else Verdict.DONE)
    assert policy(place.server.get(LOCAL)) == ("Hold" if gone_on else "None")


@some
@given(epochs, epochs, maybe)
def test_who_comes_after_work_was_woken_puts_none_to_sleep(late, back, was_stopped):
    place = Place()
    sleep = SetActive("batch", "w", "w", active=False, epoch=late)
    if was_stopped:
        place.apply(sleep)
    for epoch in (back, 1):
        place.apply(SetActive("batch", "w", "w", active=True, epoch=epoch))
    assert mark(place.server.get(WORK), EPOCH) == str(back)

    verdict = place.apply(sleep).verdict

    assert verdict is (Verdict.REFUSED if back > late else Verdict.DONE)
    assert active(place) is (back > late)


@some
@given(maybe, maybe, maybe)
def test_work_that_was_woken_since_the_look_is_not_put_to_sleep(was_stopped, was_woken, lags):
    place = Place()
    meta = place.server.get(WORK)["metadata"]
    sleep = SetActive("batch", "w", "w", active=False, epoch=1, generation=meta["generation"])
    if was_stopped:
        place.apply(sleep)
    if was_woken:
        place.apply(replace(sleep, active=True))
    if not lags:
        place.watch()

    verdict = place.apply(sleep).verdict

    assert verdict is (Verdict.CONFLICT if was_woken else Verdict.DONE)
    assert active(place) is was_woken


@some
@given(maybe, maybe)
def test_work_that_another_stopped_is_not_woken(ours_first, theirs_again):
    place = Place()
    sleep = SetActive("batch", "w", "w", active=False, epoch=1)
    if ours_first:
        place.apply(sleep)
    if theirs_again:
        place.person(WORK, {"spec": {"active": True}})
    place.person(WORK, {"spec": {"active": False}})
    place.apply(sleep)

    assert place.apply(replace(sleep, active=True, epoch=2)).verdict is Verdict.DONE
    # The same value again moves no ownership: what was ours stays ours.
    assert active(place) is (ours_first and not theirs_again)


@some
@given(stops, maybe, maybe)
def test_a_local_queue_that_another_stopped_is_not_opened(stop, ours_first, theirs_again):
    place = Place()
    seen = LocalQueue(namespace="batch", name="lq", uid="l", stop_policy=StopPolicy.NONE)
    closing = StopLocalQueue(seen, "short", stop, 1)
    if ours_first:
        place.apply(closing)
    if theirs_again:
        place.person(LOCAL, {"spec": {"stopPolicy": "None"}})
    place.person(LOCAL, {"spec": {"stopPolicy": stop.value}})
    place.apply(closing)

    give = ReopenLocalQueue("batch", "lq", "l", stop.value, "None", 2, "b580")
    assert place.apply(give).verdict is Verdict.DONE
    ours = ours_first and not theirs_again
    assert policy(place.server.get(LOCAL)) == ("None" if ours else stop.value)
