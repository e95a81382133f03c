"""Writes the generated parts of the documentation: ``python -m tests.docs``."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

from idlewin.adapters.permissions import NEEDED
from idlewin.audit.checks import CHECKS
from idlewin.audit.kinds import KINDS
from idlewin.core import condition, diagram
from idlewin.core.condition import ALARMS, ConditionType
from tests.contract.kueue import fact

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Shown always, and in order while they are True; the others are shown while they are True.
STANDING = (ConditionType.READY, ConditionType.LOAD_KNOWN)


def conditions() -> str:
    """Every condition type: which value is trouble, whether it is an alarm, what it means."""
    source = ast.parse(Path(condition.__file__).read_text())
    (body,) = (
        node.body
        for node in source.body
        if isinstance(node, ast.ClassDef) and node.name == ConditionType.__name__
    )
    # Its own sentence, and then for each type its value and the sentence below it.
    told = [
        ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign | ast.Expr)
    ]
    rows = ["| type | trouble is | alarm | it means |", "|---|---|---|---|"]
    for kind, sentence in zip(told[1::2], told[2::2], strict=True):
        trouble = 0 if kind in STANDING else 1
        means = " ".join(sentence.split()).replace("``", "`")
        rows.append(f"| `{kind}` | {trouble} | {'yes' if kind in ALARMS else ''} | {means} |")
    return "\n".join(rows)


def alerts() -> str:
    """Every alert of deploy/alerts.yaml: how bad, how long it lasts first, and what it says."""
    rows = ["| alert | severity | after | it says |", "|---|---|---|---|"]
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"]:
        for one in group["rules"]:
            told = re.sub(
                r"{{ \$labels.(\w+) }}",
                lambda label: label[1].upper(),
                one["annotations"]["summary"],
            )
            severity, wait = one["labels"]["severity"], one.get("for", "")
            rows.append(f"| `{one['alert']}` | {severity} | {wait} | {told} |")
    return "\n".join(rows)


def permissions() -> str:
    """What both accounts may do, and what cannot be done without it."""
    rows = [f"| `{one}` | {', '.join(one.verbs)} | {one.use} |" for one in NEEDED]
    return "\n".join(["| what | verbs | for what |", "|---|---|---|", *rows])


def checks() -> str:
    """Every check of ``idlewin audit``: how severe, what it finds, why that matters, what to do."""
    rows = ["| id | severity | it finds that | why | what to do |", "|---|---|---|---|---|"]
    rows += [
        f"| {one.id} | {one.severity} | {one.title} | {one.why} | {one.remedy} |"
        for one in CHECKS.values()
    ]
    return "\n".join(rows)


def auditor() -> str:
    """A ClusterRole with which ``idlewin audit`` may list all that it looks at."""
    groups: dict[str, list[str]] = {}
    for looked in KINDS.values():
        *_, group, _version, plural = ["", *looked.path.removeprefix("/apis").split("/")]
        groups.setdefault("" if group == "api" else group, []).append(plural)
    rules = [
        f'  - {{apiGroups: ["{group}"], resources: [{", ".join(sorted(names))}], verbs: [list]}}'
        for group, names in sorted(groups.items())
    ]
    head = ["apiVersion: rbac.authorization.k8s.io/v1", "kind: ClusterRole"]
    return "\n".join(["```yaml", *head, "metadata: {name: idlewin-audit}", "rules:", *rules, "```"])


MACHINE = {
    "diagram": lambda: f"```mermaid\n{diagram.mermaid()}\n```",
    "wanted": diagram.wanted_table,
    "transitions": diagram.transition_table,
    "staying": diagram.staying_table,
}
METRICS = {"conditions": conditions, "alerts": alerts}
PAGES = {
    DOCS / "audit.md": {"checks": checks, "auditor": auditor},
    DOCS / "machine.md": MACHINE,
    DOCS / "kueue.md": {"facts": fact.table},
    DOCS / "metrics.md": METRICS,
    DOCS / "security.md": {"permissions": permissions},
}


def generated(page: Path) -> str:
    """A page with its generated parts made anew."""
    text = page.read_text()
    for name, make in PAGES[page].items():
        text, found = re.subn(
            rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)",
            lambda part, make=make: f"{part[1]}{make()}\n{part[2]}",
            text,
            flags=re.DOTALL,
        )
        assert found == 1, f"{name} has no place on the page"
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(generated(page))
