"""The alerts of deploy/alerts.yaml, by Prometheus' own promtool: when each fires, and alone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from idlewin.core.condition import ALARMS, ConditionType
from idlewin.core.phase import Phase

pytestmark = pytest.mark.controlplane

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yaml"
MINUTES = 200
RULE = 'rule="b580"'


def always(value: float) -> str:
    return f"{value}x{MINUTES}"


def a_condition(kind: str, value: int) -> dict[str, str]:
    return {f'idlewin_condition{{{RULE},type="{kind}"}}': always(value)}


def a_phase(now: Phase) -> dict[str, str]:
    return {f'idlewin_phase{{{RULE},phase="{p}"}}': always(int(p is now)) for p in Phase}


CONTROLLER = {
    'idlewin_build_info{instance="one"}': always(1),
    'idlewin_build_info{instance="two"}': always(1),
    'idlewin_lease_held{instance="one"}': always(1),
    'idlewin_lease_held{instance="two"}': always(0),
    f"idlewin_revisit_timestamp_seconds{{{RULE}}}": f"15+60x{MINUTES}",
    f"idlewin_cycle_failures_total{{{RULE}}}": always(3),
    f"idlewin_budget_spent{{{RULE}}}": always(9),
    f"idlewin_budget_allowed{{{RULE}}}": always(4),
    **a_phase(Phase.SERVING),
    **a_condition("Ready", 1),
    **a_condition("LoadKnown", 1),
}
#: One that failed long ago; it stays in the cluster for days.
WATCHDOG = {
    'kube_cronjob_status_last_successful_time{cronjob="idlewin-watchdog"}': f"0+60x{MINUTES}",
    'kube_job_failed{namespace="idlewin-system",job_name="idlewin-watchdog-1",condition="true"}': (
        always(1)
    ),
    'kube_job_status_start_time{namespace="idlewin-system",job_name="idlewin-watchdog-1"}': (
        always(0)
    ),
}
QUIET = {**CONTROLLER, **WATCHDOG}
A_FAILED_JOB = {
    'kube_job_failed{namespace="idlewin-system",job_name="idlewin-watchdog-2",condition="true"}': (
        always(1)
    ),
    'kube_job_status_start_time{namespace="idlewin-system",job_name="idlewin-watchdog-2"}': (
        always(5400)
    ),
}
OTHERS = {
    "IdlewinServingNotBack": a_phase(Phase.RECLAIMING),
    "IdlewinNobodyLeads": {'idlewin_lease_held{instance="one"}': always(0)},
    "IdlewinWatchdogFailed": A_FAILED_JOB,
    "IdlewinWatchdogSilent": {
        'kube_cronjob_status_last_successful_time{cronjob="idlewin-watchdog"}': always(0)
    },
    "IdlewinNotLooking": {f"idlewin_revisit_timestamp_seconds{{{RULE}}}": always(3600)},
    "IdlewinCyclesFail": {f"idlewin_cycle_failures_total{{{RULE}}}": f"0+1x{MINUTES}"},
    "IdlewinLateReturns": {f"idlewin_budget_spent{{{RULE}}}": always(11)},
}
#: Users may find serving away, now.
AT_RISK = (
    ConditionType.SERVING_DOWN,
    ConditionType.RETURN_OVERDUE,
    ConditionType.RECORD_LOST,
    ConditionType.WITHOUT_KUEUE,
    ConditionType.BATCH_BESIDE,
)
#: False is the trouble.
STANDING = (ConditionType.READY, ConditionType.LOAD_KNOWN)
#: A person's own doing.
MEANT = (ConditionType.CLOSED_BY_OTHER,)


def fires(programs: Path, folder: Path, series: dict[str, str], *alerts: str) -> str:
    """What promtool has against these alerts, and no others, firing after two hours."""
    asked = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'group by (alertname, type) (ALERTS{alertstate="firing"})',
                        "eval_time": "2h",
                        "exp_samples": [{"labels": f"{{{one}}}", "value": 1} for one in alerts],
                    }
                ],
            }
        ],
    }
    file = folder / "asked.yaml"
    file.write_text(json.dumps(asked))
    done = subprocess.run(
        [programs / "promtool", "test", "rules", file], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_prometheus_takes_the_file(promlab_programs: Path) -> None:
    done = subprocess.run(
        [promlab_programs / "promtool", "check", "rules", "--lint-fatal", ALERTS],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_fires_while_all_is_well(promlab_programs: Path, tmp_path: Path) -> None:
    assert fires(promlab_programs, tmp_path, QUIET) == ""


@pytest.mark.parametrize("kind", sorted(set(ConditionType) - set(MEANT)))
def test_each_condition_that_tells_of_trouble_fires_one_alert(
    promlab_programs: Path, tmp_path: Path, kind: str
) -> None:
    changed = QUIET | a_condition(kind, int(kind not in STANDING))

    assert fires(promlab_programs, tmp_path, changed, _labels(kind)) == ""


def _labels(kind: str) -> str:
    if kind == ConditionType.SEAL_REFUSED:
        return 'alertname="IdlewinKueueAway"'
    if kind in STANDING:
        name = "IdlewinRuleNotReady"
    elif kind in ALARMS:
        name = "IdlewinServingAtRisk" if kind in AT_RISK else "IdlewinNeedsAPerson"
    else:
        name = "IdlewinSetUpWrong"
    return f'alertname="{name}",type="{kind}"'


@pytest.mark.parametrize("alert", OTHERS)
def test_each_other_alert_fires_alone(promlab_programs: Path, tmp_path: Path, alert: str) -> None:
    changed = QUIET | OTHERS[alert]

    assert fires(promlab_programs, tmp_path, changed, f'alertname="{alert}"') == ""


def test_a_controller_that_is_gone_is_told(promlab_programs: Path, tmp_path: Path) -> None:
    assert fires(promlab_programs, tmp_path, WATCHDOG, 'alertname="IdlewinGone"') == ""


def test_each_alert_was_seen_to_fire() -> None:
    names = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    seen = {re.findall(r'alertname="(\w+)"', _labels(kind))[0] for kind in ConditionType}

    assert names == {*seen, *OTHERS, "IdlewinGone"}
