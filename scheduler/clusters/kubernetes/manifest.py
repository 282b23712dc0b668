"""The pod of a worker: the scheduler's fields laid over the user's template, and that over plain defaults."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scheduler.clusters.kubernetes import pods
from scheduler.clusters.kubernetes.addresses import namespace_of, on_node_network, owner_name, pod_name
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.checkpoints import VARIABLE, checkpoint_mount
from scheduler.clusters.kubernetes.names import names_container
from scheduler.clusters.kubernetes.resources import asks_more, own_resources
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import StartWorker
from scheduler.errors import InvalidInput
from scheduler.model.pod_permissions import broken_template, broken_variable
from scheduler.model.pod_template import WORKER_CONTAINER, parse_template, worker_index

#: Without it an image may see every GPU of a node, also where its pod asks for none.
_VISIBLE_GPUS = "NVIDIA_VISIBLE_DEVICES"
MANAGED_BY = "app.kubernetes.io/managed-by"


def owner_manifest(settings: KubernetesSettings, namespace: str) -> Document:
    """A config map that says what it is for."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": owner_name(settings.instance),
            "namespace": namespace,
            "labels": {pods.INSTANCE: settings.instance, MANAGED_BY: pods.PREFIX},
        },
        "data": {"about": "Owner of the workers of this scheduler. Deleting it deletes the workers."},
    }


def service_manifest(settings: KubernetesSettings, namespace: str, owner: Document) -> Document:
    """A headless service: each worker has a name in the cluster's DNS as soon as its pod has an address."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": owner_name(settings.instance),
            "namespace": namespace,
            "labels": {pods.INSTANCE: settings.instance, MANAGED_BY: pods.PREFIX},
            "ownerReferences": [owned_by(owner)],
        },
        # Workers look for each other in order to become ready.
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {pods.INSTANCE: settings.instance},
        },
    }


def pod_manifest(
    start: StartWorker,
    settings: KubernetesSettings,
    owner: Document,
    seal: Callable[[str, str], str],
    gpus: Sequence[str] = (),
) -> Document:
    """The pod to be created. Raises `InvalidInput` if there is no image to run, or the job asks for what it may not.

    `seal`: of a pod with this namespace and name. `gpus`: UUIDs of those that the worker shares with others.
    """
    broken = broken_variable(start.env, settings)
    if broken is None and start.pod_template is not None:
        broken = broken_template(start.pod_template, settings)  # a daemon that allowed more may have stored it
    if broken is not None:
        raise InvalidInput(*broken)
    if gpus:
        start = replace(start, env=(*start.env, (_VISIBLE_GPUS, ",".join(gpus))))
    try:
        template = parse_template(start.pod_template) if start.pod_template is not None else {}
        pod = _manifest(template, start, settings, owner)
        if asks_more(pod["spec"], start, settings):
            pod["metadata"]["annotations"][pods.ASKS_MORE] = "true"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput("pod_template", f"cannot be used: {error}") from None
    metadata = pod["metadata"]
    if gpus:
        metadata["annotations"][pods.GPUS] = ",".join(gpus)
    metadata["annotations"][pods.SEAL] = seal(metadata["namespace"], metadata["name"])
    return pod


def _manifest(template: dict[str, Any], start: StartWorker, settings: KubernetesSettings, owner: Document) -> Document:
    metadata = template.get("metadata", {})
    spec = _spec(copy.deepcopy(template.get("spec", {})), start, settings)
    containers = spec["containers"]
    container = {pods.CONTAINER: containers[worker_index(containers) or 0]["name"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(settings.instance, start.worker_id, start.nonce),
            "namespace": namespace_of(settings, start.pod_template),
            "labels": {**metadata.get("labels", {}), **_labels(start, settings)},
            "annotations": {**metadata.get("annotations", {}), **_annotations(start), **container},
            # A ReplicaSet whose selector fits adopts pods without a controller, and deletes those too many.
            "ownerReferences": [{**owned_by(owner), "controller": True}],
        },
        "spec": spec,
    }


def _labels(start: StartWorker, settings: KubernetesSettings) -> dict[str, str]:
    return {
        MANAGED_BY: pods.PREFIX,
        pods.INSTANCE: settings.instance,
        pods.JOB: str(start.job_id),
        pods.WORKER: start.worker_id,
        pods.GENERATION: str(start.generation),
        pods.ROLE: start.role,
    }


def _annotations(start: StartWorker) -> dict[str, str]:
    return {
        pods.NODE: start.node,
        pods.SLOTS: pods.slots_text(start.slot_ids),
        pods.CPUS: repr(start.cpus),
        pods.MEMORY_MIB: str(start.memory_mib),
        **({pods.NONCE: start.nonce} if start.nonce else {}),
        **({pods.SHARED: "true"} if start.shared else {}),
    }


def owned_by(owner: Document) -> Document:
    metadata = owner["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}


def _spec(spec: dict[str, Any], start: StartWorker, settings: KubernetesSettings) -> dict[str, Any]:
    containers = spec.setdefault("containers", [])
    if not containers:
        containers.append({"name": WORKER_CONTAINER})
    index = worker_index(containers) or 0
    containers[index] = _worker(containers[index], start, settings)
    names = names_container(start, settings)
    if names is not None:
        spec.setdefault("initContainers", []).append(names)
    if not settings.trust_templates:
        for other in (*containers[:index], *containers[index + 1 :], *spec.get("initContainers", [])):
            _hide_gpus(other)
    # The worker needs nothing of the API, and the variables of a thousand services are in nobody's interest.
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)
    spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
    if settings.service_account is not None:
        spec.setdefault("serviceAccountName", settings.service_account)
    if settings.priority_class is not None:
        spec["priorityClassName"] = settings.priority_class
    if not on_node_network(start.pod_template):
        spec["hostname"] = pod_name(settings.instance, start.worker_id, start.nonce)
        spec["subdomain"] = owner_name(settings.instance)
    spec["restartPolicy"] = "Never"
    spec["terminationGracePeriodSeconds"] = max(1, round(start.grace_seconds))
    spec["tolerations"] = [*spec.get("tolerations", []), *settings.tolerations]
    spec["affinity"] = _pinned(spec.get("affinity", {}), start.node)
    return spec


def _hide_gpus(container: dict[str, Any]) -> None:
    """Hide the GPUs from a container that is not the worker: its image may ask for every GPU of a node."""
    container.setdefault("env", []).append({"name": _VISIBLE_GPUS, "value": "void"})


def _worker(container: dict[str, Any], start: StartWorker, settings: KubernetesSettings) -> dict[str, Any]:
    ours = dict(start.env)
    mounts = _with_checkpoints(list(container.get("volumeMounts", [])), ours)
    kept = [each for each in container.get("env", []) if each["name"] not in ours]
    if not start.slot_ids and all(each["name"] != _VISIBLE_GPUS for each in kept):
        ours.setdefault(_VISIBLE_GPUS, "void")
    resources = container.get("resources", {})
    requests, limits = own_resources(start, settings)
    worker = {
        **container,
        "name": container.get("name", WORKER_CONTAINER),
        "image": container.get("image", settings.image),
        "command": list(start.command),
        "env": [*kept, *({"name": name, "value": value} for name, value in ours.items())],
        "resources": {
            **resources,
            "requests": {**resources.get("requests", {}), **requests},
            "limits": {**resources.get("limits", {}), **limits},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }
    if not worker["image"]:
        raise InvalidInput("pod_template", "has no image, and kubernetes.image is not set")
    if start.workdir is not None:
        worker.setdefault("workingDir", start.workdir)
    worker.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    worker["securityContext"] = {**security, **container.get("securityContext", {})}
    return worker


def _with_checkpoints(mounts: list[Document], variables: dict[str, str]) -> list[Document]:
    """The mounts, with one for the job's checkpoints; without a volume for them, their variable is removed."""
    if VARIABLE not in variables:
        return mounts
    mount = checkpoint_mount(mounts, variables[VARIABLE])
    if mount is None:
        del variables[VARIABLE]
    return mounts if mount is None or mount in mounts else [*mounts, mount]


def _pinned(affinity: dict[str, Any], node: str) -> dict[str, Any]:
    """The affinity, restricted to this node; the user's own requirements stay."""
    rule = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*term.get("matchFields", []), rule]} for term in terms]
    return {
        **affinity,
        "nodeAffinity": {
            **node_affinity,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned},
        },
    }
