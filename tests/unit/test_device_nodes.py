"""Who is on a card without a claim: pods that mount its device node from the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.adapters import fields, objects
from idlewin.codec import read_rule
from idlewin.core.pool import Scope
from idlewin.errors import RuleError
from tests.unit.test_codec import SPEC

DRI = Scope(
    rule="r", targets=(), queues=(), resource="gpu.intel.com/xe", device_nodes=("/dev/dri",)
)


def spec(*paths, mounted=True):
    names = [f"v{number}" for number in range(len(paths))]
    mounts = [{"name": name, "mountPath": f"/in/{name}"} for name in names] if mounted else []
    return {
        "nodeName": "n",
        "containers": [{"name": "c", "volumeMounts": mounts}],
        "volumes": [
            *({"name": n, "hostPath": {"path": p}} for n, p in zip(names, paths, strict=True)),
            {"name": "token", "projected": {}},
        ],
    }


def kept(*paths, owner="ReplicaSet", **how):
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    meta = {"name": "x", "namespace": "media", "uid": "u", "resourceVersion": "7"}
    raw = {"metadata": {**meta, "ownerReferences": owners}, "spec": spec(*paths, **how)}
    return objects.trim_pod(raw, {"StatefulSet"})


@pytest.mark.parametrize(
    "path",
    ["/dev/dri", "/dev/dri/", "/dev/dri/renderD128", "/dev", "/", "//", "//dev//dri", "dev/dri"],
)
def test_a_pod_opens_a_device_node_that_it_mounts_in_part_or_from_above(path):
    assert objects.opens(kept(path), DRI)


@pytest.mark.parametrize("path", ["/dev/dri2", "/dev/kfd", "/var/lib/dri", "/device", "/de"])
def test_another_path_opens_nothing(path):
    pod = kept(path)

    assert pod is None or not objects.opens(pod, DRI)


@pytest.mark.parametrize(
    "path", ["/var/log", "/device", "/devices/dri", "c:\\logs", r"\\.\pipe\docker", "var/log"]
)
def test_a_pod_that_mounts_nothing_below_dev_is_not_kept(path):
    assert kept(path) is None


def test_a_volume_that_no_container_mounts_opens_nothing():
    assert kept("/dev/dri", mounted=False) is None


@pytest.mark.parametrize("kind", ["initContainers", "ephemeralContainers"])
def test_a_container_of_another_kind_opens_it_too(kind):
    raw = spec("/dev/dri")
    raw[kind], raw["containers"] = raw["containers"], [{"name": "main"}]

    assert fields.devices_of(raw) == ["/dev/dri"]


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_what_is_part_of_a_node_sees_to_its_cards_and_does_not_use_them(owner):
    assert kept("/dev/dri", owner=owner) is None


def test_a_pod_of_nobody_counts():
    assert objects.opens(kept("/dev/dri", owner=""), DRI)


def test_where_no_device_node_is_named_only_claims_count():
    assert not objects.opens(kept("/dev/dri"), replace(DRI, device_nodes=()))


def test_a_namespace_that_mounts_dev_for_something_else_is_exempt():
    assert not objects.opens(kept("/dev"), replace(DRI, exempt_namespaces=("media",)))
    assert objects.opens(kept("/dev"), replace(DRI, exempt_namespaces=("other",)))


def test_what_is_kept_of_a_pod_is_what_is_read():
    assert kept("/dev/dri", "/var/log", "/dev/shm")["spec"]["devices"] == ["/dev/dri", "/dev/shm"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"deviceNodes": ["dri"]}, "cards.deviceNodes: has 'dri', which names nothing below /dev"),
        ({"deviceNodes": ["/dev"]}, "has '/dev', which names nothing below /dev; write the path"),
        ({"deviceNodes": ["/dev/../etc"]}, "has '/dev/../etc', which names nothing below /dev"),
        ({"deviceNodes": ["/dev/dri/"]}, "such as /dev/dri or /dev/nvidia0"),
        ({"deviceNodes": "/dev/dri"}, "deviceNodes"),
        ({"exemptNamespaces": ["longhorn-system"]}, "has no use without cards.deviceNodes"),
    ],
)
def test_a_device_node_that_cannot_be_is_told(changes, told):
    with pytest.raises(RuleError) as error:
        read_rule({**SPEC, "cards": {**SPEC["cards"], **changes}})

    assert told in str(error.value)


def test_device_nodes_are_read():
    changes = {"deviceNodes": ["/dev/dri"], "exemptNamespaces": ["longhorn-system"]}
    cards = read_rule({**SPEC, "cards": {**SPEC["cards"], **changes}}).cards

    assert cards.device_nodes == ("/dev/dri",)
    assert cards.exempt_namespaces == ("longhorn-system",)
