"""The table of what is looked for: docs/audit.md is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from idlewin.diagnosis import Severity


class Id(StrEnum):
    """1: who is on cards. 2: settings. 3: batch and quota. 4: who fights, who preempts."""

    OVERSUBSCRIBED = "IW101"
    SHARED = "IW102"
    BYPASS = "IW103"
    OPENS_ALL = "IW104"
    MONITORING = "IW105"
    IDLE = "IW106"
    BESIDE_CLAIMS = "IW107"
    REPLICAS = "IW201"
    RESOURCE_MANAGER = "IW202"
    LIMITER = "IW203"
    UNQUEUED = "IW301"
    NOBODY_MANAGES = "IW302"
    ORPHANED_QUOTA = "IW303"
    QUOTA = "IW304"
    GATE_LEAKS = "IW305"
    NO_CONTRACT = "IW306"
    NOT_KEPT = "IW307"
    FIGHT = "IW401"
    PRIORITY = "IW402"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is looked for. Its id stays what it is; one that is given up is not reused."""

    id: str
    title: str
    severity: Severity
    why: str
    remedy: str


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING


def _checks(*rows: tuple[Id, Severity, str, str, str]) -> dict[Id, Check]:
    return {
        row[0]: Check(id=row[0], severity=row[1], title=row[2], why=row[3], remedy=row[4])
        for row in rows
    }


CHECKS = _checks(
    (
        Id.OVERSUBSCRIBED, _ERROR, "a node gives out more cards than it has",
        ("The scheduler puts as many pods there as it says, and they share compute and memory of "
        "the same card without a limit. Quota by it is bookkeeping."),
        "have the device plugin offer one a card (sharedDevNum: 1; no replicas)",
    ),
    (
        Id.SHARED, _WARNING, "more pods are on cards than there are cards",
        "Whoever needs the card next waits for, or slows down, somebody who does not know of it.",
        ("decide the co-tenancy: scale one to zero, move one to another card, or let them take "
        "turns"),
    ),
    (
        Id.BYPASS, _ERROR, "a pod opens a card's device node without a rule that knows of it",
        ("The scheduler and Kueue count requests; who mounts /dev/dri or the like is on the card "
        "beside whoever was given it, and, where it requests one as well, on all cards there."),
        ("request the card in place of the mount; where it has to be a mount, name it in a rule's "
        "serving, with cards.deviceNodes"),
    ),
    (
        Id.OPENS_ALL, _WARNING, "a pod gets at every card of its node without a request",
        ("A privileged container sees all devices; NVIDIA_VISIBLE_DEVICES=all has the runtime give "
        "it all cards. No quota and no window keeps it off."),
        "take privileged or the variable away and request the card",
    ),
    (
        Id.MONITORING, _WARNING, "a pod that is not of its node holds the monitoring resource",
        "The monitoring resource of Intel's plugin gives all cards of a node, and counts as none.",
        ("request a card; leave the monitoring resource to exporters, exempted where they are no "
        "DaemonSet"),
    ),
    (
        Id.IDLE, _WARNING, "a card is held and idle, and nobody lends it",
        "It is capacity that is paid for and that batch waits for.",
        "let a rule lend it: mode: Act (docs/operations.md)",
    ),
    (
        Id.BESIDE_CLAIMS, _WARNING, "cards of a vendor are given out in two ways",
        ("A ResourceClaim (DRA) and an extended resource are counted apart: each may give the same "
        "card away. idlewin and quota by the extended resource see the one only."),
        "give the cards of a node out in one way",
    ),
    (
        Id.REPLICAS, _WARNING, "a card that is shared is taken for several",
        ("sharedDevNum and time-slicing replicas repeat access to a card: no memory is set aside, "
        "no compute is bounded, and one pod that runs out of memory ends the others' work."),
        "set sharedDevNum: 1, or take the replicas out; share by one program that owns the card",
    ),
    (
        Id.RESOURCE_MANAGER, _WARNING, "the resource manager of Intel's plugin is switched on",
        ("It was taken out of intel-device-plugins 0.34. The setting is read by nobody, and so are "
        "requests for gpu.intel.com/millicores and memory.max."),
        "take the setting out, and the requests for parts of cards with it",
    ),
    (
        Id.LIMITER, _WARNING, "an experimental limiter is relied upon",
        ("NVIDIA's plugin calls MPS experimental: its clients share a fault domain. An NRI plugin "
        "for the dmem cgroup caps memory, not compute, and its spill and cleanup are not proven."),
        "switch it off, or keep it to a flavor of its own that says experimental",
    ),
    (
        Id.UNQUEUED, _WARNING, "batch takes a card past the queues",
        ("What has no kueue.x-k8s.io/queue-name starts when it likes, also beside serving, and no "
        "window keeps it out."),
        "label it kueue.x-k8s.io/queue-name with a LocalQueue of its namespace",
    ),
    (
        Id.NOBODY_MANAGES, _ERROR, "a Job waits for a controller that does not take it up",
        ("Kubernetes leaves a Job with another managedBy alone; where that controller does not "
        "run, nobody starts it and nobody ends it."),
        "start that controller, or make the Job anew without managedBy",
    ),
    (
        Id.ORPHANED_QUOTA, _ERROR, "work has cards of a queue and no pod",
        ("Kueue gives quota back when work ends. Work that has no pod and does not end keeps "
        "others waiting for days."),
        "look why it makes no pods (kubectl describe its owner); delete it, or set active: false",
    ),
    (
        Id.QUOTA, _ERROR, "quota is given for more cards than there are",
        "Kueue lets work in that gets no card: it waits while its maximum execution time runs.",
        "make the sum of nominalQuota of a flavor the number of its cards, best on one Cohort",
    ),
    (
        Id.GATE_LEAKS, _ERROR, "a queue that no window closes reaches the cards of a rule",
        ("What it lets in is on the cards beside serving: a stopped ClusterQueue lends its quota, "
        "and another queue with quota of the flavor needs no loan."),
        "name the queue in the rule, or give it a flavor of other nodes",
    ),
    (
        Id.NO_CONTRACT, _ERROR, "work may be ended that agreed to no end",
        ("Kueue preempts, and idlewin evicts, where a queue says so; without a contract what was "
        "computed is lost."),
        ("annotate the Job idlewin.dev/contract: Checkpoint once it saves itself, or move it to a "
        "queue with maxRuntime"),
    ),
    (
        Id.NOT_KEPT, _WARNING, "work under a contract has only volumes that go with its pod",
        "What it saved is gone with the eviction to which it agreed, unless it saved elsewhere.",
        "mount a PersistentVolumeClaim for what it saves",
    ),
    (
        Id.FIGHT, _ERROR, "somebody else writes what a rule writes",
        "Each undoes the other: serving comes up in a window, or a queue opens behind it.",
        "leave the field to one of the two (docs/gitops.md)",
    ),
    (
        Id.PRIORITY, _WARNING, "the scheduler would take a card from a pod of lower priority",
        "It does so whatever was agreed to, and tells only the one that is ended.",
        "give both one priority, or the higher one preemptionPolicy: Never",
    ),
)  # fmt: skip
