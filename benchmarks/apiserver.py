"""An API server of Kubernetes to measure with: plain requests, and what the cluster's scheduler and kubelets say."""

import json
import re
from collections.abc import Collection
from typing import Any

import urllib3

_READY = {"type": "Ready", "status": "True"}
_AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110"}
_MERGE = "application/strategic-merge-patch+json"
_COUNTED = re.compile(r'apiserver_request_total\{.*\bresource="(?P<resource>[^"]*)".*\} (?P<count>\S+)$')
_LONG_AGO = "2026-01-01T00:00:00Z"


class ApiServer:
    """Threads may share it; any answer that is not a success is a `RuntimeError`."""

    #: Requests at a time.
    CONNECTIONS = 4

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        headers = {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(maxsize=self.CONNECTIONS, headers=headers, cert_reqs="CERT_NONE")

    def close(self) -> None:
        self._pool.clear()

    def get(self, path: str) -> Any:
        return json.loads(self._ask("GET", path).data)

    def exists(self, path: str) -> bool:
        return self._ask("GET", path, allowed=404).status == 200

    def post(self, path: str, body: Any) -> None:
        self._ask("POST", path, body)

    def patch(self, path: str, body: Any) -> None:
        self._ask("PATCH", path, body)

    def requests_total(self, resources: Collection[str]) -> float:
        """Requests about these that the server has answered since its start; watches count when they end."""
        lines = self._ask("GET", "/metrics").data.decode().splitlines()
        counted = [_COUNTED.match(line) for line in lines]
        return sum(float(match["count"]) for match in counted if match and match["resource"] in resources)

    def add_node(self, name: str, resources: dict[str, str]) -> None:
        """A node that is ready."""
        self.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        # the API server taints what it is told of, until a controller finds it ready
        self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        amounts = {**_AMOUNTS, **resources}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [_READY]}
        self.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def run_pod(self, namespace: str, name: str, node: str, container: str) -> None:
        """Bind it and let it run."""
        binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
        self._report(namespace, name, "Running", container, {"running": {"startedAt": _LONG_AGO}})

    def end_pod(self, namespace: str, name: str, container: str, exit_code: int) -> None:
        """Its container has ended with this code, and nothing else is in it."""
        phase = "Failed" if exit_code else "Succeeded"
        ended = {"exitCode": exit_code, "startedAt": _LONG_AGO, "finishedAt": _LONG_AGO}
        self._report(namespace, name, phase, container, {"terminated": {**ended, "reason": "Completed"}})

    def _report(self, namespace: str, name: str, phase: str, container: str, state: Any) -> None:
        """What a kubelet says of a pod of one container; merged by name, so the former state has to be taken away."""
        former = {"running": None, **state} if "terminated" in state else state
        said = {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": former}
        status = {"phase": phase, "containerStatuses": [said]}
        self.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})

    def _ask(self, method: str, path: str, body: Any = None, allowed: int = 200) -> urllib3.BaseHTTPResponse:
        kind = _MERGE if method == "PATCH" else "application/json"
        headers = {**self._pool.headers, "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, self._url + path, body=data, headers=headers)
        if answer.status >= 300 and answer.status != allowed:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data.decode()[:300]}")
        return answer
