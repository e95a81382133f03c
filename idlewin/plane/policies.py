"""Policies of the API server for Jobs and JobSets in tenants' namespaces.

They ask for what the plane rests on: a queue and a priority of the tenant, an end where the queue
has a bound, the contract where it has one. No webhook of anybody is needed for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from idlewin.core.pool import CONTRACT
from idlewin.core.rule import Contract
from idlewin.plane.kueue import NAMESPACE_LABEL
from idlewin.plane.model import Plane
from idlewin.plane.objects import Object

_API = "admissionregistration.k8s.io/v1"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
MAXIMUM = "kueue.x-k8s.io/max-exec-time-seconds"
Json = dict[str, Any]

#: Jobs that a JobSet makes: the JobSet was looked at.
_OF_A_JOBSET = """\
!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'JobSet' &&
o.apiVersion.startsWith('jobset.x-k8s.io/') && o.?controller.orValue(false))"""


def objects(plane: Plane) -> Iterator[Object]:
    """The policies, then their bindings."""
    made = [
        policy
        for policy in (_queues(plane), _bounds(plane), _contracts(plane))
        if policy is not None
    ]
    yield from made
    for policy in made:
        yield _binding(policy, plane)


def _queues(plane: Plane) -> Object:
    """Each Job names a queue and a priority of its tenant."""
    queues: dict[str, list[str]] = {}
    priorities: dict[str, list[str]] = {}
    for tenant in plane.written.tenants:
        mine = [queue.local for queue in plane.queues if queue.tenant is tenant]
        for namespace in tenant.namespaces:
            queues[namespace] = mine
            priorities[namespace] = list(tenant.priorities)
    variables = {
        "queues": f"{_cel(queues)}[?request.namespace].orValue([])",
        "priorities": f"{_cel(priorities)}[?request.namespace].orValue([])",
        "queue": _label(QUEUE),
        "priority": _label(PRIORITY),
        "sameQueue": _unchanged(QUEUE),
        "samePriority": _unchanged(PRIORITY),
    }
    validations = [
        {
            "expression": "variables.sameQueue || variables.queue in variables.queues",
            "messageExpression": (
                f"'work in namespace ' + request.namespace + ' names its queue: label {QUEUE}, "
                "one of ' + variables.queues.join(', ')"
            ),
        },
        {
            "expression": "variables.samePriority || variables.priority in variables.priorities",
            "messageExpression": (
                f"'work in namespace ' + request.namespace + ' names its priority: label "
                f"{PRIORITY}, one of ' + variables.priorities.join(', ')"
            ),
        },
    ]
    why = (
        "Every Job and JobSet in a tenant's namespace goes through a queue of that tenant, with a "
        "priority of that tenant. What is there already is looked at again only where these labels "
        "change, so that Kueue can start and stop it."
    )
    return _policy(f"{plane.name}-queue", variables, validations, why)


def _bounds(plane: Plane) -> Object | None:
    """Work in a queue with a bound says when it ends, in a label by which Kueue ends it."""
    most = {
        queue.local: int(queue.kind.max_runtime.total_seconds())
        for queue in plane.queues
        if queue.kind.max_runtime is not None
    }
    if not most:
        return None
    variables = {
        "most": f"{_cel(most)}[?{_label(QUEUE)}].orValue(0)",
        "said": _label(MAXIMUM),
        "same": f"{_unchanged(QUEUE)} &&\n{_unchanged(MAXIMUM)}",
    }
    validations = [
        {
            "expression": (
                "variables.same || variables.most == 0 ||\n"
                "(variables.said.matches('^[1-9][0-9]{0,8}$') &&\n"
                "int(variables.said) <= variables.most)"
            ),
            "messageExpression": (
                f"'work in queue ' + {_label(QUEUE)} + ' ends by itself: label {MAXIMUM}, "
                "a whole number up to ' + string(variables.most)"
            ),
        }
    ]
    why = (
        "A returning user waits until such work has ended, so it has to say when: Kueue ends it by "
        "this label, and by no other."
    )
    return _policy(f"{plane.name}-bound", variables, validations, why)


def _contracts(plane: Plane) -> Object | None:
    """Work in a queue under contract has agreed to it, and has the time and the tries for it."""
    graces = {
        queue.local: int(queue.in_rule.grace.total_seconds())
        for queue in plane.queues
        if queue.kind.contract is not None
    }
    if not graces:
        return None
    start = f"'work in queue ' + {_label(QUEUE)} + '"
    agreed = Contract.CHECKPOINT.value
    asked = {
        f"variables.marks.all(m, m == '{agreed}')": (
            f"{start} saves itself and resumes: every pod template has the annotation "
            f"{CONTRACT}: {agreed}'"
        ),
        "variables.graces.all(g, g >= variables.least)": (
            f"{start} has the time to save itself: terminationGracePeriodSeconds of at least ' + "
            "string(variables.least)"
        ),
        "variables.tries.all(t, t > 0)": (
            f"{start} can be begun again: backoffLimit above 0, for Kubernetes may count an "
            "eviction as a failure'"
        ),
    }
    validations = [
        {
            "expression": f"variables.same || variables.least < 0 ||\n{test}",
            "messageExpression": message,
        }
        for test, message in asked.items()
    ]
    why = (
        "Work in these queues is evicted when users return. Only what agreed to it is let in, with "
        "the time that saving takes. That it does save itself, and where to, no policy can see."
    )
    return _policy(f"{plane.name}-contract", _of_jobs(graces), validations, why)


def _of_jobs(graces: Mapping[str, object]) -> dict[str, str]:
    """What a contract is seen by, in each of the Jobs, and whether it was so before."""
    jobs = (
        "(request.kind.kind == 'JobSet' ? {0}.spec.replicatedJobs.map(r, r.template.spec) :\n"
        "[{0}.spec])"
    )
    seen = {
        # A mark may be an annotation or a label; idlewin reads both.
        "marks": (
            f"variables.{{0}}.map(j, j.template.?metadata.?annotations['{CONTRACT}']\n"
            f".or(j.template.?metadata.?labels['{CONTRACT}']).orValue(''))"
        ),
        "graces": (
            "variables.{0}.map(j, j.template.spec.?terminationGracePeriodSeconds.orValue(30))"
        ),
        "tries": "variables.{0}.map(j, j.?backoffLimit.orValue(6))",
    }
    same = [f"variables.{name} == {text.format('jobsBefore')}" for name, text in seen.items()]
    return {
        "least": f"{_cel(graces)}[?{_label(QUEUE)}].orValue(-1)",
        "jobs": jobs.format("object"),
        "jobsBefore": f"(request.operation == 'UPDATE' ? {jobs.format('oldObject')} : [])",
        **{name: text.format("jobs") for name, text in seen.items()},
        "same": " &&\n".join([_unchanged(QUEUE), *same]),
    }


# -- the parts of a policy


def _policy(
    name: str, variables: Mapping[str, str], validations: Sequence[Json], why: str
) -> Object:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _work("batch", "jobs"),
                _work("jobset.x-k8s.io", "jobsets"),
            ]
        },
        "matchConditions": [{"name": "not-of-a-jobset", "expression": _OF_A_JOBSET}],
        "variables": [{"name": key, "expression": text} for key, text in variables.items()],
        "validations": list(validations),
    }
    return _object("ValidatingAdmissionPolicy", name, spec, why)


def _work(group: str, resource: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
    }


def _binding(policy: Object, plane: Plane) -> Object:
    where = {"key": NAMESPACE_LABEL, "operator": "In", "values": list(plane.namespaces)}
    spec = {
        "policyName": policy.name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchExpressions": [where]}},
    }
    return _object("ValidatingAdmissionPolicyBinding", policy.name, spec, "")


def _object(kind: str, name: str, spec: Json, why: str) -> Object:
    body = {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Object(body=body, why=why)


def _label(key: str) -> str:
    return f"object.metadata.?labels['{key}'].orValue('')"


def _unchanged(key: str) -> str:
    return (
        "(request.operation == 'UPDATE' &&\n"
        f"object.metadata.?labels['{key}'] == oldObject.metadata.?labels['{key}'])"
    )


def _cel(values: Mapping[str, object]) -> str:
    """A mapping as CEL writes it, one entry a line. Names have no quotes in them."""
    lines = (f"  '{key}': {json.dumps(value)}".replace('"', "'") for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}"
