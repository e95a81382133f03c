"""Rules from files: what is read when, and that such a rule cannot act."""

import os
from datetime import timedelta

import pytest

from idlewin.adapters.files import FileRules, refuse_acting
from idlewin.core.pool import Pool
from idlewin.errors import UsageError

RULE = """\
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata: {name: %s}
spec:
  mode: %s
  cards: {resource: gpu.intel.com/xe, count: 1, nodeSelector: {a: b}}
  serving:
    - {apiVersion: apps/v1, kind: Deployment, namespace: ai, name: %s, demand: CalendarOnly}
  batch: {queues: [{clusterQueue: q, maxRuntime: 30m}]}
"""


class Empty:
    def look(self, _scope, *, fresh=False):
        return Pool(allocatable=7, nodes=(str(fresh),))


def rule_text(name, mode="Observe"):
    return RULE % (name, mode, name)


def write(path, text, age=0):
    path.write_text(text)
    os.utime(path, (1_700_000_000 - age,) * 2)


def test_rules_come_from_the_files_and_looks_from_the_cluster(tmp_path):
    write(tmp_path / "a.yaml", rule_text("b580"))

    rules = FileRules(tmp_path, Empty())

    assert rules.names() == ("b580",)
    assert rules.rule("b580").rule.stale_after == timedelta(minutes=5)
    assert rules.rule("other") is None
    assert rules.look(None, fresh=True) == Pool(allocatable=7, nodes=("True",))


def test_files_are_read_again_when_they_change(tmp_path):
    write(tmp_path / "a.yaml", rule_text("b580"), age=60)
    rules = FileRules(tmp_path, Empty())
    unchanged = rules.rule("b580")
    assert rules.names() == ("b580",)
    assert rules.rule("b580") is unchanged

    write(tmp_path / "b.yaml", rule_text("a770"))
    (tmp_path / "a.yaml").unlink()

    assert rules.names() == ("a770",)
    assert rules.rule("b580") is None


def test_a_rule_that_cannot_be_read_is_told_with_its_line_and_harms_no_other(tmp_path, caplog):
    wrong = rule_text("bad").replace("mode: Observe", "mode: Sometimes")
    write(tmp_path / "a.yaml", rule_text("good") + "---\n" + wrong)

    rules = FileRules(tmp_path, Empty())

    assert rules.rule("good").rule is not None
    assert rules.rule("bad").rule is None
    assert "mode" in rules.rule("bad").error
    assert "a.yaml:15" in caplog.text


def test_a_directory_without_a_rule_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(UsageError, match="idlewin check"):
        FileRules(tmp_path, Empty())


def test_a_rule_that_would_act_is_refused_and_told_the_ways_out(tmp_path):
    write(tmp_path / "a.yaml", rule_text("b580", mode="Act"))
    rules = FileRules(tmp_path, Empty())

    with pytest.raises(UsageError, match=r"rule b580 .*kubectl apply.*--dry-run.*Observe"):
        refuse_acting(map(rules.rule, rules.names()))


def test_a_rule_that_observes_and_one_that_cannot_be_read_are_not_refused(tmp_path):
    wrong = rule_text("bad", mode="Act").replace("count: 1", "count: 0")
    write(tmp_path / "a.yaml", rule_text("good") + "---\n" + wrong)
    rules = FileRules(tmp_path, Empty())

    refuse_acting(map(rules.rule, rules.names()))
