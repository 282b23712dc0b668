"""A service of other people's making: a Deployment of nginx behind a Service, which knows nothing of the scheduler.

Its pods ask for a slot each and have the priority class of services, as docs/kubernetes.md says. nginx is Debian's,
from the node.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.cluster.site import CPUS, IMAGE, SYSTEM, Site, host_paths
from benchmarks.trouble import Skipped

NAME, PORT = "web", 8080
STATUS = "/status"
_FOLDER = "/etc/web"
#: Connections end after a few requests, so that new pods get their part of the load and pods that go leave none behind.
_CONFIGURATION = f"""
daemon off; pid /tmp/nginx.pid; error_log stderr; worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 5;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server {{
    listen {PORT};
    location = {STATUS} {{ stub_status; }}
    location / {{ return 200 "welcome\n"; }}
  }}
}}
"""


@contextmanager
def running_nginx(site: Site) -> Iterator[str]:
    """One pod of it to begin with, which the caller awaits; its address."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise Skipped("no nginx here: apt-get install nginx-light")
    names = (NAME, site.namespace)
    site.core.create_namespaced_config_map(
        site.namespace, {"metadata": {"name": NAME}, "data": {"nginx.conf": _CONFIGURATION}}
    )
    site.apps.create_namespaced_deployment(site.namespace, _deployment(site, program))
    service = {"metadata": {"name": NAME}, "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}]}}
    made = site.core.create_namespaced_service(site.namespace, service)
    try:
        yield f"{made.spec.cluster_ip}:{PORT}"
    finally:
        # The answer is a status, which some clients cannot read as what they asked to delete.
        for delete in (
            site.apps.delete_namespaced_deployment,
            site.core.delete_namespaced_service,
            site.core.delete_namespaced_config_map,
        ):
            delete(*names, _preload_content=False)


def _deployment(site: Site, program: str) -> dict[str, Any]:
    volumes, mounts = host_paths(SYSTEM)
    volumes += [{"name": "tmp", "emptyDir": {}}, {"name": "configuration", "configMap": {"name": NAME}}]
    mounts += [{"name": "tmp", "mountPath": "/tmp"}, {"name": "configuration", "mountPath": _FOLDER}]
    container = {
        "name": "nginx",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [program, "-e", "stderr", "-c", f"{_FOLDER}/nginx.conf"],
        # Whoever is nobody needs no user of the image to change to.
        "securityContext": {"runAsUser": 65534, "runAsGroup": 65534},
        "resources": {"requests": {site.resource: "1", "cpu": str(CPUS)}, "limits": {site.resource: "1"}},
        "readinessProbe": {"httpGet": {"path": STATUS, "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 5},
        # It serves on until nobody sends it anything.
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sleep", "3"]}}},
        "volumeMounts": mounts,
    }
    spec = {
        "priorityClassName": site.service_class,
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": volumes,
    }
    labels = {"app": NAME}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
