"""The network policy of a job: only its own workers may connect to its workers."""

from scheduler.clusters.kubernetes import pods
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.manifest import MANAGED_BY, owned_by
from scheduler.config import KubernetesSettings
from scheduler.model.ids import JobId

NETWORKING = "/apis/networking.k8s.io/v1"


def policy_name(instance: str, job_id: JobId) -> str:
    return f"{instance}-job-{job_id}"


def policy_manifest(settings: KubernetesSettings, job_id: JobId, namespace: str, owner: Document) -> Document:
    """Allow ingress from the job's own workers only, on any port, since workers choose theirs as they start."""
    members = {"matchLabels": {pods.INSTANCE: settings.instance, pods.JOB: str(job_id)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": policy_name(settings.instance, job_id),
            "namespace": namespace,
            "labels": {pods.INSTANCE: settings.instance, pods.JOB: str(job_id), MANAGED_BY: pods.PREFIX},
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {
            "podSelector": members,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": members}]}],
        },
    }
