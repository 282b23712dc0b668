"""Names of pods, and where workers reach each other: known before a pod runs, since they follow from its worker."""

from collections.abc import Callable
from functools import lru_cache

from scheduler.config import KubernetesSettings
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.pod_template import parse_template, template_namespace
from scheduler.model.worker import Worker


def pod_name(instance: str, worker: WorkerId, nonce: str) -> str:
    """Name of a worker's pod; it depends on nothing else, so a repeated start finds the pod. `nonce`: its job's."""
    return f"{instance}-{worker}-{nonce}" if nonce else f"{instance}-{worker}"


def owner_name(instance: str) -> str:
    """Name of the object that owns all workers, and of the service that gives them names."""
    return f"{instance}-workers"


def host_of(settings: KubernetesSettings) -> Callable[[Job, Worker], str]:
    """Return a function for the host of a worker: the pod's DNS name, or the node's address for host networking."""

    def host(job: Job, worker: Worker) -> str:
        if on_node_network(job.pod_template_of(worker)):
            return worker.host
        namespace = namespace_of(settings, job.pod_template_of(worker))
        return dns_name(settings.instance, namespace, pod_name(settings.instance, worker.id, job.nonce))

    return host


def dns_name(instance: str, namespace: str, pod: str) -> str:
    """DNS name of a pod, which the service of all workers provides."""
    return f"{pod}.{owner_name(instance)}.{namespace}.svc"


def namespace_of(settings: KubernetesSettings, template: str | None) -> str:
    """Namespace of the pods of this template."""
    return settings.namespace if template is None else template_namespace(template) or settings.namespace


@lru_cache(maxsize=1024)
def on_node_network(template: str | None) -> bool:
    """Whether the pods of this template have no address of their own."""
    return template is not None and bool(parse_template(template).get("spec", {}).get("hostNetwork"))
