"""Pod templates that users give with a job: canonical text, and what they may not say. Standard library only.

A template is a mapping like the `template` of a Kubernetes Deployment: `metadata` (labels, annotations) and `spec`.
The worker's container is the one named `worker`, or the first. What the scheduler decides (command, slots, node,
restart policy, grace, its own variables) is laid over it; everything else is the user's.
"""

import json
from collections.abc import Mapping
from typing import Any

#: The name of the container that the worker runs in.
WORKER_CONTAINER = "worker"
#: Longer ones do not fit into an object of the API beside the rest.
TEMPLATE_LENGTH_MAX = 256 * 1024

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


def broken_template_rule(template: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first rule that it breaks: the field, and what would be right. The API server checks the rest."""
    for key in template:
        if key not in ("metadata", "spec"):
            return (
                f"pod_template.{key}",
                "unknown field: a pod template has metadata and spec, like the template of a Deployment",
            )
    for key in ("metadata", "spec"):
        if not isinstance(template.get(key, {}), dict):
            return f"pod_template.{key}", "must be a mapping"
    if len(canonical_template(template)) > TEMPLATE_LENGTH_MAX:
        return "pod_template", f"exceeds {TEMPLATE_LENGTH_MAX // 1024} KiB"
    return _broken_metadata(template.get("metadata", {})) or _broken_spec(template.get("spec", {}))


def _broken_metadata(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    for key, value in metadata.items():
        place = f"pod_template.metadata.{key}"
        if key not in ("labels", "annotations"):
            return place, "not allowed: only labels and annotations can be set"
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            return place, "must map names to strings"
    return None


def _broken_spec(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    for key, rule in _SPEC_RULES.items():
        if key in spec:
            return f"pod_template.spec.{key}", rule
    for key in ("containers", "initContainers", "volumes", "tolerations"):
        items = spec.get(key, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            return f"pod_template.spec.{key}", "must be a list of mappings"
    if not isinstance(spec.get("affinity", {}), dict):
        return "pod_template.spec.affinity", "must be a mapping"
    containers = spec.get("containers", [])
    index = worker_index(containers)
    return None if index is None else _broken_worker(containers[index], f"pod_template.spec.containers.{index}")


def _broken_worker(container: Mapping[str, Any], place: str) -> tuple[str, str] | None:
    for key, rule in _WORKER_RULES.items():
        if key in container:
            return f"{place}.{key}", rule
    env = container.get("env", [])
    if not isinstance(env, list) or not all(isinstance(item, dict) and "name" in item for item in env):
        return f"{place}.env", "must be a list of mappings with a name"
    for key in ("resources", "securityContext"):
        if not isinstance(container.get(key, {}), dict):
            return f"{place}.{key}", "must be a mapping"
    return None
