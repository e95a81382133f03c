"""Laws of single writes, as the adapter sends them: whoever else writes, before or in between.

A leader may decide on what was true a while ago, and another may have gone on meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, example, given, settings, strategies as st

from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.watched import QUEUES, RULES, Watched
from idlewin.adapters.writes import Writer
from idlewin.codec import read_record
from idlewin.core.decision import (
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    Outcome,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import (
    ADOPTED_BY,
    EPOCH,
    FINALIZER,
    LEFT,
    MANAGER,
    RECORD,
    RESUME,
    LocalQueue,
    StopPolicy,
)
from idlewin.core.status import Status
from tests.builders import QWEN, a_batch_pod
from tests.property.server import Server, Written, mark, version

Json = dict[str, Any]
some = settings(max_examples=60, deadline=None)
TARGET = DEPLOYMENT.path(QWEN.namespace, QWEN.name)
RULE, QUEUE = f"{RULES}/b580", f"{QUEUES}/short"
GROUP = QUEUES.rpartition("/")[0]
LOCAL = f"{GROUP}/namespaces/batch/localqueues/lq"
WORK = f"{GROUP}/namespaces/batch/workloads/w"
maybe = st.booleans()
epochs = st.integers(1, 4)
policies = st.sampled_from(list(StopPolicy))


class Place:
    """A server with one of each, watched by one process whose watch may lag."""

    def __init__(self) -> None:
        self.server = Server()
        self.stores = Watched(self.server)  # type: ignore[arg-type]
        self.looked: dict[str, int] = {}
        self.writer = Writer(self.server, self.stores, self.looked)  # type: ignore[arg-type]
        labels = {"matchLabels": {"app": "q"}}
        self.create(RULE, "b580", "r", {"serving": []})
        self.create(TARGET, "qwen", "t", {"replicas": 2, "selector": labels, "template": {}})
        self.create(QUEUE, "short", "q", {"stopPolicy": "Hold"}, {ADOPTED_BY: "b580"})
        self.create(LOCAL, "lq", "l", {"clusterQueue": "short"})
        self.create(WORK, "w", "w", {"queueName": "lq", "podSets": []})
        self.watch()

    def create(
        self, path: str, name: str, uid: str, spec: Json, annotations: Json | None = None
    ) -> None:
        namespace = {TARGET: "ai", LOCAL: "batch", WORK: "batch"}.get(path)
        meta = {"name": name, "uid": uid, "annotations": annotations or {}}
        meta |= {"namespace": namespace} if namespace else {}
        self.server.create(path, {"metadata": meta, "spec": spec})

    def watch(self) -> None:
        """Let the watches catch up, and look at the queue."""
        stores = self.stores
        kept = {
            RULE: stores.rules, TARGET: stores.serving["Deployment"], QUEUE: stores.queues,
            LOCAL: stores.local_queues, WORK: stores.workloads,
        }  # fmt: skip
        for path, store in kept.items():
            store.upsert(self.server.get(path))
        self.looked["short"] = self.server.get(QUEUE)["metadata"]["generation"]

    def knows_the_queue(self) -> bool:
        """Whether the watch has caught up with the ClusterQueue."""
        seen = self.stores.queues.get("", "short")
        return seen is not None and version(seen) == version(self.server.get(QUEUE))

    def person(self, path: str, patch: Json, manager: str = "kubectl") -> None:
        self.server.write(path, manager, patch)

    def apply(self, action: Any) -> Outcome:
        outcome = self.writer.apply(action)
        assert outcome.verdict is not Verdict.FAILED, outcome.message
        return outcome

    def to_zero(self, epoch: int, seen: Json | None = None) -> ScaleToZero:
        """Decided on what was seen."""
        raw = seen or self.server.get(TARGET)
        meta = raw["metadata"]
        return ScaleToZero(
            QWEN, meta["uid"], size(raw), version(raw), "b580", epoch,
            generation=meta["generation"],
        )  # fmt: skip


def size(raw: Json) -> int:
    return int(raw["spec"]["replicas"])


def record(raw: Json) -> Any:
    return read_record(mark(raw, RECORD))[0] if mark(raw, RECORD) else None


def last_writer(raw: Json, *path: str) -> str:
    found = [one for one in raw["metadata"]["managedFields"] if one["path"] == path]
    return found[-1]["manager"] if found else ""


def among(*lives: list[tuple[str, Any, bool]]) -> Any:
    """These lives in any case: each is the shortest in which one precondition alone stands."""

    def decorated(law: Any) -> Any:
        for life in lives:
            law = example(life)(law)
        return law

    return decorated


# -- serving

sizes = st.builds(lambda n: {"spec": {"replicas": n}}, st.integers(0, 3))
labels = st.builds(lambda n: {"metadata": {"labels": {"n": str(n)}}}, st.integers(0, 9))
deploys = st.builds(lambda n: {"spec": {"template": {"n": n}}}, st.integers(0, 9))
theirs = st.one_of(sizes, labels, deploys)
OFTEN = ("theirs", "lower", "back") * 3 + ("forget", "made anew", "watch", "on", "on", "scaled")


@st.composite
def steps(draw: Any) -> tuple[str, Any, Any]:
    kind = draw(st.sampled_from(OFTEN))
    what = {"theirs": theirs, "lower": st.tuples(epochs, st.one_of(st.none(), theirs), maybe)}
    rules = st.sampled_from(["b580", "b580", "other"])
    what |= {"back": st.tuples(epochs, rules, st.integers(1, 3))}
    what |= {"forget": st.tuples(epochs, st.sampled_from(["b580", "other"])), "on": epochs}
    return kind, draw(what.get(kind, st.none())), draw(maybe)


def live(place: Place, kind: str, what: Any, seen: Json) -> Any:
    """One step of a target's life: by its owner, by a leader, or by one that was leader."""
    match kind:
        case "theirs":
            place.person(TARGET, what)
        case "scaled":
            # Kubernetes leaves a zero that was written through /scale to nobody.
            for replicas in (4, 0):
                place.person(TARGET, {"spec": {"replicas": replicas}}, "")
        case "made anew":
            spec = place.server.get(TARGET)["spec"]
            place.create(TARGET, "qwen", f"t{place.server.version}", {**spec, "replicas": 2})
        case "watch":
            place.watch()
        case "on":
            place.person(RULE, {"status": {"epoch": what}}, MANAGER)
        case "lower":
            epoch, between, counts = what
            if size(seen) == 0:
                return None  # there is nothing to lower
            if between:
                place.server.between.append(lambda: place.person(TARGET, between))
            action = place.to_zero(epoch, seen)
            return action if counts else replace(action, generation=0)
        case "back":
            epoch, rule, was = what
            return ScaleBack(QWEN, seen["metadata"]["uid"], was, rule, epoch)
        case "forget":
            return ForgetRecord(QWEN, seen["metadata"]["uid"], rule=what[1], epoch=what[0])
    return None


def kept(action: Any, write: Written, epoch_of_rule: int) -> None:
    """What a write of ours to a target must never do."""
    before, after = write.before, write.after
    assert action.uid == before["metadata"]["uid"], "another object of the name was written"
    if size(after) == size(before):
        assert isinstance(action, ForgetRecord), "nothing else is written without a size"
        assert record(before).rule == action.rule, "the record of another rule was taken"
        assert record(before).epoch <= action.epoch, "the record of a later window was taken"
    elif size(after) == 0:
        assert isinstance(action, ScaleToZero)
        found = record(after)
        assert record(before) is None, "a record was written over"
        assert size(before) == action.replicas == found.replicas, "what it was is not on record"
        known = (0, before["metadata"]["generation"])
        assert action.generation in known, "its owner has written it"
        assert (found.uid, found.epoch) == (action.uid, action.epoch)
    else:
        assert isinstance(action, ScaleBack)
        assert size(before) == 0, "its owner's size was written over"
        found, writer = record(before), last_writer(before, "spec", "replicas")
        # Where nobody is on record for a bare zero, whoever decided has it on record as ours.
        assert writer == MANAGER or (not writer and not found), "its owner's zero was raised"
        assert found is None or found.rule == action.rule, "another rule's window was ended"
        assert found is None or found.epoch <= action.epoch, "a later window was ended"
        assert action.rule != "b580" or epoch_of_rule <= action.epoch, (
            "another has gone on with the rule"
        )
        assert size(after) == action.replicas
        assert record(after) is None, "a record was left behind"


DOWN = ("lower", (2, None, True), True)
UP = ("theirs", {"spec": {"replicas": 3}}, False)


@settings(max_examples=250, deadline=None)
@among(
    [DOWN, UP, ("lower", (3, None, True), True)],
    [("theirs", {"spec": {"template": {"n": 1}}}, False), ("lower", (1, None, True), False)],
    [UP, ("lower", (1, None, False), False)],
    [("lower", (1, {"spec": {"replicas": 3}}, True), True)],
    [("made anew", None, False), ("lower", (1, None, False), False)],
    [DOWN, ("back", (2, "b580", 3), True), ("back", (2, "b580", 1), False)],
    [DOWN, ("back", (4, "other", 1), True)],
    [DOWN, ("back", (1, "b580", 2), True)],
    [DOWN, ("on", 4, True), ("back", (2, "b580", 2), True)],
    [("theirs", {"spec": {"replicas": 0}}, True), ("back", (1, "b580", 2), True)],
    [DOWN, ("forget", (4, "other"), True)],
    [DOWN, ("forget", (1, "b580"), True)],
    [DOWN, ("back", (2, "b580", 2), True)],
)
@given(st.lists(steps(), min_size=2, max_size=9))
def test_whatever_a_target_lives_through_no_write_of_ours_takes_from_its_owner(life):
    place = Place()
    seen = place.server.get(TARGET)
    for kind, what, looks in life:
        seen = place.server.get(TARGET) if looks else seen
        action = live(place, kind, what, seen)
        if action is None:
            continue
        count = len(place.server.ours)
        epoch = (place.server.get(RULE).get("status") or {}).get("epoch", 0)
        place.apply(action)
        place.server.between.clear()
        new = place.server.ours[count:]
        assert len(new) <= 1, "what belongs together was written apart"
        for write in new:
            kept(action, write, epoch)


@some
@given(st.integers(1, 5), maybe, maybe, maybe, maybe)
def test_zero_and_back_leave_a_target_as_it_was(replicas, touched, lags, meanwhile, has_rule):
    place = Place()
    place.person(TARGET, {"spec": {"replicas": replicas}})
    if not lags:
        place.watch()
    action = place.to_zero(3)
    before = place.server.get(TARGET)["spec"]
    if touched:
        place.person(TARGET, {"metadata": {"labels": {"a": "b"}}})
    elif meanwhile:
        touch = {"metadata": {"labels": {"c": "d"}}}
        place.server.between.append(lambda: place.person(TARGET, touch))
    if has_rule:
        place.person(RULE, {"status": {"epoch": 3}}, MANAGER)
    else:
        del place.server.objects[RULE]

    down = [place.apply(action).verdict for _ in range(2)]
    lowered = place.server.get(TARGET)
    seen = place.stores.serving["Deployment"].get("ai", "qwen")
    back = place.apply(ScaleBack(QWEN, "t", replicas, "b580", 3)).verdict

    assert down == [Verdict.DONE] * 2
    assert (size(lowered), record(lowered).replicas) == (0, replicas)
    assert size(seen) == 0, "our own write is seen at once, whatever the watch is at"
    assert back is Verdict.DONE
    assert place.server.get(TARGET)["spec"] == before
    assert record(place.server.get(TARGET)) is None


@settings(max_examples=20, deadline=None)
@given(epochs, st.integers(1, 3))
def test_a_zero_that_was_written_through_scale_is_its_owner_s(epoch, was):
    place = Place()
    assert place.apply(place.to_zero(epoch)).verdict is Verdict.DONE
    live(place, "scaled", None, {})

    assert place.apply(ScaleBack(QWEN, "t", was, "b580", epoch)).verdict is Verdict.REFUSED
    assert size(place.server.get(TARGET)) == 0


# -- queues

openings = st.sampled_from([StopPolicy.NONE, *StopPolicy])
OF_QUEUES = ("closed", "set") * 3 + ("fence", "fence", "resume", "watch", "watch")
OF_QUEUES += ("given away", "deleted", "deleted", "made anew")


@st.composite
def queue_steps(draw: Any) -> tuple[str, Any, Any]:
    kind = draw(st.sampled_from(OF_QUEUES))
    what = {"closed": st.tuples(policies, st.sampled_from(["kubectl", "argocd"]))}
    what |= {"set": st.tuples(openings, epochs, st.one_of(st.none(), policies))}
    what |= {"fence": st.tuples(epochs, maybe)}
    return kind, draw(what.get(kind, st.none())), draw(maybe)


def live_queue(place: Place, kind: str, what: Any, seen: Json) -> Any:
    match kind:
        case "closed":
            place.person(QUEUE, {"spec": {"stopPolicy": what[0].value}}, what[1])
        case "resume":
            place.person(RULE, {"metadata": {"annotations": {RESUME: place.server.now()}}})
            place.stores.rules.upsert(place.server.get(RULE))
        case "given away":
            place.person(QUEUE, {"metadata": {"annotations": {ADOPTED_BY: "other"}}})
        case "deleted":
            place.person(QUEUE, {"metadata": {"deletionTimestamp": place.server.now()}})
        case "made anew":
            spec, uid = {"stopPolicy": "Hold"}, f"q{place.server.version}"
            place.create(QUEUE, "short", uid, spec, {ADOPTED_BY: "b580"})
        case "watch":
            place.watch()
        case "set":
            policy, epoch, between = what
            if between:
                closing = {"spec": {"stopPolicy": between.value}}
                place.server.between.append(lambda: place.person(QUEUE, closing, "argocd"))
            return SetStopPolicy("short", seen["metadata"]["uid"], policy, epoch, "b580")
        case "fence":
            return FenceQueue("short", seen["metadata"]["uid"], what[0], "b580", marks=what[1])
    return None


def policy(raw: Json) -> str:
    return str(raw["spec"]["stopPolicy"])


def written_at(raw: Json) -> str:
    found = [o for o in raw["metadata"]["managedFields"] if o["path"] == ("spec", "stopPolicy")]
    return found[-1]["time"] if found else ""


def kept_shut(place: Place, action: Any, write: Written) -> None:
    """What a write of ours to a queue must never do."""
    before, after = write.before, write.after
    assert action.uid == before["metadata"]["uid"], "another object of the name was written"
    assert int(mark(after, EPOCH) or 0) >= int(mark(before, EPOCH) or 0), "the fence came down"
    if isinstance(action, FenceQueue):
        assert policy(after) == policy(before), "a fence changes no policy"
        if mark(after, LEFT) != mark(before, LEFT):
            assert action.marks
            assert (mark(before, LEFT), mark(after, LEFT)) == ("", policy(before))
            assert policy(before) != "None"
            assert before["metadata"]["generation"] == place.looked["short"], "not as looked at"
        return
    assert mark(after, LEFT) == policy(after) == action.policy, "what we wrote is not on it"
    if action.policy is StopPolicy.NONE:
        opened(place, action, before)
    elif policy(before) not in ("None", mark(before, LEFT)):
        assert before["metadata"]["generation"] <= place.looked["short"], "theirs stands"


def opened(place: Place, action: SetStopPolicy, before: Json) -> None:
    """What must hold of a queue that we open."""
    assert mark(before, ADOPTED_BY) == action.rule, "it is not ours"
    assert int(mark(before, EPOCH) or 0) <= action.epoch, "another has gone on with it"
    assert "deletionTimestamp" not in before["metadata"]
    writer = last_writer(before, "spec", "stopPolicy")
    if writer not in ("", MANAGER):
        assert before["metadata"]["generation"] <= place.looked["short"], "written since the look"
    if mark(before, LEFT) not in ("", policy(before)) and policy(before) != "None":
        resumed = mark(place.server.get(RULE), RESUME)
        assert resumed >= written_at(before), f"{writer} had closed it"
        assert resumed


SEEN = ("watch", None, True)
HELD, FENCED = ("set", (StopPolicy.HOLD, 2, None), True), ("fence", (4, False), True)
OPENS = ("set", (StopPolicy.NONE, 2, None), True)
CLOSED = ("closed", (StopPolicy.HOLD_AND_DRAIN, "kubectl"), False)


@settings(max_examples=250, deadline=None)
@among(
    [FENCED, SEEN, HELD],
    [("fence", (2, False), True), SEEN, HELD],
    [HELD, SEEN, ("set", (StopPolicy.HOLD, 3, None), True)],
    [("deleted", None, True), SEEN, OPENS],
    [("given away", None, True), SEEN, OPENS],
    [FENCED, SEEN, OPENS],
    [CLOSED, OPENS],
    [HELD, SEEN, CLOSED, SEEN, OPENS],
    [FENCED, SEEN, ("fence", (1, False), True)],
    [CLOSED, ("fence", (1, True), False)],
    [OPENS, SEEN, CLOSED, ("set", (StopPolicy.HOLD, 3, None), False)],
    [("made anew", None, False), ("set", (StopPolicy.HOLD, 1, None), False)],
    [("set", (StopPolicy.HOLD, 2, StopPolicy.HOLD_AND_DRAIN), True)],
)
@given(st.lists(queue_steps(), min_size=2, max_size=9))
def test_whatever_a_queue_lives_through_we_open_none_that_is_not_ours_to_open(life):
    place = Place()
    seen = place.server.get(QUEUE)
    for kind, what, looks in life:
        seen = place.server.get(QUEUE) if looks else seen
        action = live_queue(place, kind, what, seen)
        if action is None:
            continue
        count, known = len(place.server.ours), place.knows_the_queue()
        outcome = place.apply(action)
        place.server.between.clear()
        new = place.server.ours[count:]
        assert len(new) <= 1
        for write in new:
            kept_shut(place, action, write)
        # Closing goes by what the watch has: what that lacks is for the next look.
        if outcome.verdict is Verdict.DONE and (new or known):
            now = place.server.get(QUEUE)
            assert int(mark(now, EPOCH)) >= action.epoch, "done, and not on it"
            closes = isinstance(action, SetStopPolicy)
            assert not closes or policy(now) == mark(now, LEFT) == action.policy


@some
@given(policies, epochs, maybe, maybe)
def test_a_queue_of_ours_is_closed_whatever_it_is_and_opened_when_a_person_says_so(
    found, epoch, marked, late
):
    place = Place()
    if marked:
        place.apply(SetStopPolicy("short", "q", StopPolicy.HOLD, epoch, "b580"))
    place.person(QUEUE, {"spec": {"stopPolicy": found.value}}, "argocd")
    if not late:
        place.watch()
    closing = SetStopPolicy("short", "q", StopPolicy.HOLD_AND_DRAIN, epoch, "b580")
    if place.apply(closing).verdict is Verdict.CONFLICT:
        assert late, "it was looked at"
        place.watch()
        assert place.apply(closing).verdict is Verdict.DONE
    opening = replace(closing, policy=StopPolicy.NONE)
    place.watch()
    assert place.apply(opening).verdict is Verdict.DONE

    place.person(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
    place.watch()
    assert place.apply(opening).verdict is Verdict.REFUSED
    live_queue(place, "resume", None, {})
    assert place.apply(opening).verdict is Verdict.DONE

    place.person(QUEUE, {"spec": {"stopPolicy": "Hold"}})
    place.watch()
    place.apply(FenceQueue("short", "q", epoch + 1, "b580", marks=True))
    assert mark(place.server.get(QUEUE), LEFT) == "None", "their closing was taken for ours"
    assert place.apply(replace(opening, epoch=9)).verdict is Verdict.REFUSED, "said before that"


@some
@given(policies, policies, st.one_of(st.none(), policies), maybe)
def test_a_local_queue_has_back_what_it_had_unless_its_owner_has_changed_it(
    had, stop, change, before_us
):
    assume(had is not stop)  # what is so already is not asked for
    place = Place()
    place.person(LOCAL, {"spec": {"stopPolicy": had.value}})
    place.watch()
    seen = LocalQueue(namespace="batch", name="lq", uid="l", stop_policy=had)
    changed = {"spec": {"stopPolicy": (change or had).value}}
    give = ReopenLocalQueue("batch", "lq", "l", stop.value, had.value, 2, "b580")

    if before_us:
        place.person(LOCAL, changed)
    stopped = place.apply(StopLocalQueue(seen, "short", stop, 2)).verdict
    if not before_us and change:
        place.person(LOCAL, changed)
    assert place.apply(give).verdict is Verdict.DONE

    now = StopPolicy(policy(place.server.get(LOCAL)))
    if before_us and (change or had) not in (had, stop):
        assert (stopped, now) == (Verdict.CONFLICT, change), "on nobody's record, and written over"
    elif change and (before_us or change is not stop):
        assert now is change, "its owner's last word was written over"
    else:
        assert now is had


# -- work, and the rule itself


@some
@given(maybe, maybe, maybe)
def test_only_the_work_and_the_pod_that_were_meant_are_stopped(active, another, deletes):
    place = Place()
    path = "/api/v1/namespaces/batch/pods/job-x"
    place.server.create(path, {"metadata": {"name": "job-x", "uid": "new" if another else "p1"}})
    uid = "gone" if another else "w"

    work = place.apply(SetActive("batch", "w", uid, active=active, epoch=1)).verdict
    pod = place.apply(EvictPod(a_batch_pod(), delete=deletes)).verdict

    assert work is pod is (Verdict.GONE if another else Verdict.DONE)
    assert place.server.get(WORK)["spec"].get("active", True) is (another or active)
    how = "deleted" if deletes else "evicted"
    assert [one for one, _ in place.server.ended] == ([] if another else [how])


@some
@given(maybe, maybe, st.lists(st.sampled_from(["a/b", "c/d", FINALIZER]), unique=True))
def test_only_our_finalizer_comes_and_goes_and_none_comes_late(deleting, meanwhile, had):
    place = Place()
    place.person(RULE, {"metadata": {"finalizers": had}})
    place.watch()
    if meanwhile:
        had = ["e/f", *had]
        place.person(RULE, {"metadata": {"finalizers": had}})
    if deleting:
        place.person(RULE, {"metadata": {"deletionTimestamp": place.server.now()}})

    held = place.apply(HoldRule("b580", version(place.server.get(RULE)))).verdict
    now = version(place.server.get(RULE))
    with_ours = place.server.get(RULE)["metadata"]["finalizers"]
    assert place.apply(ReleaseRule("b580", "of an older look")).verdict is Verdict.CONFLICT
    assert place.apply(ReleaseRule("b580", now)).verdict is Verdict.DONE

    late, others = deleting and FINALIZER not in had, [one for one in had if one != FINALIZER]
    assert held is (Verdict.REFUSED if late else Verdict.DONE)
    assert set(with_ours) == {*had, *([] if late else [FINALIZER])}
    assert place.server.get(RULE)["metadata"]["finalizers"] == others


@some
@given(epochs, epochs, maybe)
def test_a_status_is_written_over_the_one_that_was_decided_on_and_over_no_other(
    epoch, other, moved
):
    place = Place()
    read = version(place.server.get(RULE))
    if moved:
        place.person(RULE, {"status": {"epoch": other, "phase": "Serving"}}, MANAGER)

    outcome = place.apply(Remember("b580", read, None, Status(epoch=epoch)))

    assert outcome.verdict is (Verdict.CONFLICT if moved else Verdict.DONE)
    assert place.server.get(RULE)["status"]["epoch"] == (other if moved else epoch)
    now = version(place.server.get(RULE))
    assert outcome.resource_version == ("" if moved else now), "the next write goes by it"
    assert version(place.stores.rules.get("", "b580")) == now, "whatever the watch has shown"


@some
@given(st.integers(0, 3))
def test_a_write_is_tried_again_for_each_version_that_it_meets(conflicts):
    place = Place()
    touch = {"metadata": {"labels": {"n": "x"}}}
    for n in range(conflicts):
        edit = {**touch, "metadata": {"labels": {"n": str(n)}}}
        place.server.between.append(lambda edit=edit: place.person(QUEUE, edit))
    closing = SetStopPolicy("short", "q", StopPolicy.HOLD_AND_DRAIN, 2, "b580")

    assert place.apply(closing).verdict is Verdict.DONE
    assert place.stores.queues.get("", "short")["spec"]["stopPolicy"] == "HoldAndDrain"


@some
@given(epochs)
def test_a_rehearsal_leaves_nothing_where_looks_are_made(epoch):
    place = Place()
    seen = place.stores.serving["Deployment"].get("ai", "qwen")
    rehearsal = Writer(place.server, place.stores, place.looked, keeps=False)  # type: ignore[arg-type]

    assert rehearsal.apply(place.to_zero(epoch)).verdict is Verdict.DONE
    assert place.stores.serving["Deployment"].get("ai", "qwen") == seen
