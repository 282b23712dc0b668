"""An init container that waits until the worker and its peers have names in the cluster's DNS.

A name resolves a moment after its pod has got an address, which may be after the worker's program has begun.
"""

from scheduler.clusters.kubernetes.addresses import dns_name, namespace_of, on_node_network, pod_name
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import StartWorker

#: Of the init container.
NAME = "await-names"
#: `getent` is there with most systems; the `nslookup` of busybox knows whole names only. A name that never comes is the
#: program's to tell.
_SCRIPT = """
resolves() {
  getent hosts "$1" && return
  for domain in $(sed -n 's/^search//p' /etc/resolv.conf); do nslookup "$1.$domain" && return; done
  return 1
}
for name in "$@"; do
  tries=0
  until resolves "$name" || [ "$((tries += 1))" -gt 300 ]; do sleep 0.2; done >/dev/null 2>&1
done
"""
_AMOUNTS = {"cpu": "10m", "memory": "16Mi"}


def names_container(start: StartWorker, settings: KubernetesSettings) -> Document | None:
    """The init container; None where the settings want none, or the pod has no name of its own."""
    if settings.names_image is None or on_node_network(start.pod_template):
        return None
    pod = pod_name(settings.instance, start.worker_id, start.nonce)
    own = dns_name(settings.instance, namespace_of(settings, start.pod_template), pod)
    variables = dict(start.env)
    fixed = [host.rpartition(":")[0] for host in variables.get("SCHED_FIXED_HOSTS", "").split(",")]
    others = [variables.get("MASTER_ADDR", ""), *fixed]
    # What is on its node's network is reached at an address, which needs no name.
    names = dict.fromkeys((own, *(name for name in others if name.endswith(".svc"))))
    return {
        "name": NAME,
        "image": settings.names_image,
        "command": ["sh", "-c", _SCRIPT, "sh", *names],
        "resources": {"requests": dict(_AMOUNTS), "limits": {"memory": _AMOUNTS["memory"]}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
