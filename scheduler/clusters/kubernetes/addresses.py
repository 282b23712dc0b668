"""Names of pods, and where workers reach each other: known before a pod runs, since they follow from its worker."""

from collections.abc import Callable
from functools import lru_cache

from scheduler.config import KubernetesSettings
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.pod_template import parse_template, template_namespace
from scheduler.model.worker import Worker


def pod_name(instance: str, worker: WorkerId, nonce: str) -> str:
    """The same for the same worker, whoever starts it and how often. `nonce` is that of its job."""
    return f"{instance}-{worker}-{nonce}" if nonce else f"{instance}-{worker}"


def owner_name(instance: str) -> str:
    """Of the object that owns all workers, and of the service that gives them names."""
    return f"{instance}-workers"


def host_of(settings: KubernetesSettings) -> Callable[[Job, Worker], str]:
    """Where others reach a worker: a pod by the name that the service gives it, one on its node's network there."""

    def host(job: Job, worker: Worker) -> str:
        if on_node_network(job.pod_template_of(worker)):
            return worker.host
        namespace = namespace_of(settings, job.pod_template_of(worker))
        return dns_name(settings.instance, namespace, pod_name(settings.instance, worker.id, job.nonce))

    return host


def dns_name(instance: str, namespace: str, pod: str) -> str:
    """Of the pod of this name, as the service of all workers gives it."""
    return f"{pod}.{owner_name(instance)}.{namespace}.svc"


def namespace_of(settings: KubernetesSettings, template: str | None) -> str:
    """Where the pods of this template run."""
    return settings.namespace if template is None else template_namespace(template) or settings.namespace


@lru_cache(maxsize=1024)
def on_node_network(template: str | None) -> bool:
    """Whether the pods of this template have no address of their own."""
    return template is not None and bool(parse_template(template).get("spec", {}).get("hostNetwork"))
