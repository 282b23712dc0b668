"""Pod templates that users give with a job: canonical text, and what they may not say. Standard library only.

A template is a mapping like the `template` of a Kubernetes Deployment: `metadata` (labels, annotations) and `spec`.
The worker's container is the one named `worker`, or the first. What the scheduler decides (command, slots, node,
restart policy, grace, its own variables) is laid over it; the rest is the user's, as far as `pod_fields` allows it.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scheduler.bounds import NESTING_MAX, nested_too_deeply
from scheduler.model.field_rules import Broken, Leave
from scheduler.model.pod_fields import POD_TEMPLATE

#: The name of the container that the worker runs in.
WORKER_CONTAINER = "worker"
#: Longer ones do not fit into an object of the API beside the rest.
TEMPLATE_LENGTH_MAX = 256 * 1024
#: Whoever may write anything that the API takes.
TRUSTED = Leave(trusted=True)

_SPEC_RULES = {
    "nodeName": "not allowed: the scheduler chooses the node; use node_selector of the job",
    "restartPolicy": "not allowed: the scheduler replaces failed workers",
    "terminationGracePeriodSeconds": "not allowed: use grace_seconds of the job",
    "hostname": "not allowed: the scheduler names pods so that workers find each other",
    "subdomain": "not allowed: the scheduler names pods so that workers find each other",
    "ephemeralContainers": "not allowed in a pod template",
}
_WORKER_RULES = {
    "command": "not allowed: use command of the job",
    "args": "not allowed: use command of the job",
    "restartPolicy": "not allowed: the scheduler replaces failed workers",
    "restartPolicyRules": "not allowed: the scheduler replaces failed workers",
}


def canonical_template(template: Mapping[str, Any]) -> str:
    """The one text of equal templates."""
    return json.dumps(template, sort_keys=True, separators=(",", ":"))


def parse_template(text: str) -> dict[str, Any]:
    """The mapping that a canonical text stands for."""
    template: dict[str, Any] = json.loads(text)
    return template


def worker_index(containers: list[dict[str, Any]]) -> int | None:
    """Which of a template's containers is the worker's; None if there are none."""
    named = (i for i, container in enumerate(containers) if container.get("name") == WORKER_CONTAINER)
    return next(named, 0 if containers else None)


@lru_cache(maxsize=1024)
def template_namespace(text: str | None) -> str | None:
    """The namespace that a canonical text names; None: that of all jobs."""
    return None if text is None else parse_template(text).get("metadata", {}).get("namespace")


def in_template_namespace(text: str | None, namespace: str) -> str:
    """The canonical text of the same template with this namespace."""
    template = {} if text is None else parse_template(text)
    return canonical_template({**template, "metadata": {**template.get("metadata", {}), "namespace": namespace}})


def broken_template_rule(template: Mapping[str, Any], leave: Leave = TRUSTED) -> Broken | None:
    """The first rule that it breaks: the field, and what would be right. The API server checks the rest.

    By default only what nobody may write is an error.
    """
    if nested_too_deeply(template):
        return "pod_template", f"must not be nested more than {NESTING_MAX} levels deep"
    if len(canonical_template(template)) > TEMPLATE_LENGTH_MAX:
        return "pod_template", f"exceeds {TEMPLATE_LENGTH_MAX // 1024} KiB"
    for key in template:
        if key not in ("metadata", "spec"):
            return (
                f"pod_template.{key}",
                "unknown field: a pod template has metadata and spec, like the template of a Deployment",
            )
    for key in template.get("metadata", {}) if isinstance(template.get("metadata", {}), dict) else ():
        if key not in ("labels", "annotations", "namespace"):
            return f"pod_template.metadata.{key}", "not allowed: only labels and annotations can be set"
    wrong = _first_named(template.get("spec"), "pod_template.spec", _SPEC_RULES)
    wrong = wrong or POD_TEMPLATE.broken(dict(template), "pod_template", leave)
    return wrong or _broken_worker(template.get("spec", {}).get("containers", []))


def _broken_worker(containers: list[dict[str, Any]]) -> Broken | None:
    index = worker_index(containers)
    return (
        None
        if index is None
        else _first_named(containers[index], f"pod_template.spec.containers.{index}", _WORKER_RULES)
    )


def _first_named(value: Any, path: str, rules: Mapping[str, str]) -> Broken | None:
    named = (key for key in rules if isinstance(value, dict) and key in value)
    return next(((f"{path}.{key}", rules[key]) for key in named), None)
