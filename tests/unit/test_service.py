"""One controller process: in which order it starts, when it may act, and how it ends."""

from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest

from idlewin.adapters.clock import SystemClock
from idlewin.service import AloneLease, Hearers, Parts, Service, Stoppable
from idlewin.wakeups import Pace, Wakeups

LIMIT = 10


class Told:
    """Every part, and the order in which things were done to them."""

    def __init__(self):
        self.order, self.synced, self.looked = [], Event(), Event()
        self.sight, self.unknown, self.lease_known = (), (), True
        self.wake = {}
        self.leave = Event()
        self.leave.set()

    def part(self, name):
        told = self

        class Part:
            def start(self):
                told.order.append(f"{name} starts")

            def stop(self):
                told.order.append(f"{name} ends")

            def wait_synced(self, _timeout):
                return told.synced.wait(0.01)

            def trouble(self):
                return told.sight

            def missing(self):
                return told.unknown[:1]

            def absent(self):
                return told.unknown

            def subscribe(self, wake):
                told.order.append(f"{name} wakes pools")
                told.wake[name] = wake

            def held(self):
                return True

            def known(self):
                return told.lease_known

        return Part()

    def look(self, name):
        self.order.append(f"{name} is looked at")
        self.looked.set()
        self.leave.wait(LIMIT)
        return datetime.now(UTC) + timedelta(hours=1)

    def cycle_done(self, rule, _seconds):
        self.order.append(f"{rule} is done")

    def cycle_failed(self, rule, _seconds):
        self.order.append(f"{rule} failed")

    def gone(self, rule):
        self.order.append(f"{rule} is gone")


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def service(told):
    pace = Pace(tick=timedelta(hours=1), workers=1)
    wakeups = Wakeups(told.look, lambda: ("b580",), SystemClock(), told, pace)
    lease = told.part("lease")
    service = Service(
        Parts(
            wakeups=wakeups,
            watching=told.part("watching"),
            may_act=Stoppable(lease),
            lease=lease,
            endpoint=lambda _service: told.part("endpoint"),
            last=[lambda: told.order.append("journal closes")],
        )
    )
    yield service
    service.stop()


def running(service):
    ended = []
    thread = Thread(target=lambda: ended.append(service.run()))
    thread.start()
    return thread, ended


def test_nothing_is_looked_at_before_all_is_synced_and_the_lease_goes_last_but_the_watches(
    told, service
):
    thread, ended = running(service)
    assert not told.looked.wait(0.1)
    told.synced.set()
    assert told.looked.wait(LIMIT)

    service.stop()
    thread.join(LIMIT)

    assert ended == [True]
    assert told.order == [
        "endpoint starts",
        "watching starts",
        "lease starts",
        "watching wakes pools",
        "lease wakes pools",
        "b580 is looked at",
        "b580 is done",
        "lease ends",
        "endpoint ends",
        "watching ends",
        "journal closes",
    ]


def test_who_takes_the_lease_looks_at_every_pool_at_once(told, service):
    running(service)
    told.synced.set()
    assert told.looked.wait(LIMIT)
    told.looked.clear()

    told.wake["lease"]()

    assert told.looked.wait(LIMIT)


def test_it_can_be_stopped_before_anything_is_synced(told, service):
    thread, ended = running(service)

    service.stop()
    thread.join(LIMIT)

    assert ended == [True]
    assert "lease ends" in told.order
    assert not told.looked.is_set()


def test_once_stopped_no_action_may_begin_while_the_lease_is_still_ours(told):
    lease = told.part("lease")
    may_act = Stoppable(lease)
    before = may_act.held()

    may_act.stop()

    assert (before, may_act.held(), lease.held()) == (True, False, True)


def test_readiness_says_what_is_missing(told, service):
    told.sight = ("/api/v1/pods: 403 forbidden",)
    unsynced = service.missing()
    thread, _ = running(service)
    told.synced.set()
    told.looked.wait(LIMIT)
    told.sight = ()

    working = service.missing()
    told.lease_known = False
    leaderless = service.missing()
    service.stop()
    stopping = service.missing()
    thread.join(LIMIT)

    assert unsynced == (
        "not in sight: /api/v1/pods: 403 forbidden",
        "the watches are not synced yet",
    )
    assert working in ((), ("no tick yet",))
    assert "the API server does not say who holds the Lease" in leaderless
    assert stopping == ("it is being stopped",)


def test_a_cluster_without_our_kind_or_kueue_is_told_once_and_without_ours_it_is_not_ready(
    told, service, caplog
):
    told.unknown = ("no IdleRule", "no ClusterQueue")
    thread, _ = running(service)
    told.synced.set()
    assert told.looked.wait(LIMIT)

    missing = service.missing()
    service.stop()
    thread.join(LIMIT)

    assert "no IdleRule" in missing
    assert "no ClusterQueue" not in missing, "wake calls come only to who is ready"
    told_of = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert told_of == ["no IdleRule", "no ClusterQueue"]


def test_all_who_keep_something_of_a_rule_hear_that_it_is_gone(told):
    forgotten = []
    hearers = Hearers(told, forgotten.append, forgotten.append)

    hearers.cycle_done("a", 1)
    hearers.cycle_failed("b", 1)
    hearers.gone("c")

    assert told.order == ["a is done", "b failed", "c is gone"]
    assert forgotten == ["c", "c"]


def test_who_is_alone_may_always_act():
    assert AloneLease().held()
