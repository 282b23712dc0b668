"""A Kubernetes control plane for tests: etcd and an API server, no kubelet. The test does what kubelets would do."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from scheduler.config import KubernetesSettings
from tests.eventually import eventually
from tests.ports import free_port

RESOURCE = "nvidia.com/gpu"
TOKEN = "a-token-of-tests"
START_SECONDS_MAX = 120.0
_READY = {"type": "Ready", "status": "True"}


class ControlPlane:
    """Etcd and an API server on free ports of 127.0.0.1; the latter can be stopped and started again."""

    def __init__(self, assets: Path, directory: Path) -> None:
        self._assets = assets
        self._directory = directory
        self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = itertools.count(1)
        self.kubeconfig = directory / "kubeconfig"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        (self._directory / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
        key = ["openssl", "genrsa", "-out", str(self._directory / "sa.key"), "2048"]
        subprocess.run(key, check=True, capture_output=True)
        self.kubeconfig.write_text(self.kubeconfig_with(TOKEN))
        self._spawn(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer_port}",
            "--unsafe-no-fsync",
        )
        self.start_api()

    def start_api(self) -> None:
        """Start the API server, with what it had stored before, and wait until it answers."""
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={self._directory / 'certs'}",
            f"--service-account-key-file={self._directory / 'sa.key'}",
            f"--service-account-signing-key-file={self._directory / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
        )
        self.core = client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig)))
        self.rights = client.RbacAuthorizationV1Api(self.core.api_client)
        eventually(self._answers, "the API server does not answer", START_SECONDS_MAX)

    def stop_api(self) -> None:
        """Kill the API server; what it has stored stays."""
        self.core.api_client.close()
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def close(self) -> None:
        self.core.api_client.close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def kubeconfig_with(self, token: str) -> str:
        """The text of a kubeconfig for this server."""
        return kubeconfig_of(self.url, token)

    def settings(self, **changes: Any) -> KubernetesSettings:
        """Of a scheduler with a namespace of its own."""
        namespace = f"test-{next(self._numbers)}"
        self.core.create_namespace({"metadata": {"name": namespace}})
        given = {"namespace": namespace, "kubeconfig": self.kubeconfig, "image": "image:1", "resource": RESOURCE}
        return KubernetesSettings(**{**given, **changes})

    # what a cloud, kubelets and the cluster's scheduler do

    def add_node(self, name: str, gpus: int = 4, labels: Mapping[str, str] | None = None, **spec: Any) -> None:
        """A node that is ready."""
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self.core.create_node({"metadata": metadata, "spec": spec})
        # the API server taints what it is told of, until a controller finds it ready
        self.core.patch_node(name, {"spec": {"taints": spec.get("taints", [])}})
        amounts = {RESOURCE: str(gpus), "cpu": "15500m", "memory": "64Gi", "pods": "110"}
        addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.1.2.3"}]
        status = {"capacity": amounts, "allocatable": amounts, "addresses": addresses, "conditions": [_READY]}
        self.core.patch_node_status(name, {"status": status})

    def unready(self, name: str) -> None:
        self.core.patch_node_status(name, {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})

    def pod(
        self, namespace: str, name: str, requests: Mapping[str, str], labels: Mapping[str, str], **more: Any
    ) -> None:
        """Somebody's pod that waits for a node."""
        container = {"name": "main", "image": "image:1", "resources": {"requests": requests, "limits": requests}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
        self.core.create_namespaced_pod(namespace, {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec})

    def bind(self, namespace: str, name: str, node: str) -> None:
        body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.core.create_namespaced_pod_binding(name, namespace, body, _preload_content=False)

    def report(self, namespace: str, name: str, **status: Any) -> None:
        """What a kubelet says of a pod."""
        self.core.patch_namespaced_pod_status(name, namespace, {"status": status})

    def container(self, namespace: str, name: str, phase: str, **state: Any) -> None:
        """What a kubelet says of a pod whose worker's container is in this state."""
        status = {"name": "worker", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        self.report(namespace, name, phase=phase, containerStatuses=[status])

    def event(self, namespace: str, pod: Any, kind: str, reason: str, message: str) -> None:
        """What a controller says of a pod."""
        involved = {"kind": "Pod", "name": pod.metadata.name, "namespace": namespace, "uid": pod.metadata.uid}
        said = {"type": kind, "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:00:00Z"}
        metadata = {"generateName": "event-"}
        self.core.create_namespaced_event(namespace, {"metadata": metadata, "involvedObject": involved, **said})

    def vanish(self, namespace: str, name: str) -> None:
        """The pod's processes are gone, and so is it."""
        self.core.delete_namespaced_pod(name, namespace, body={"gracePeriodSeconds": 0})

    def _answers(self) -> bool:
        with suppress(urllib3.exceptions.HTTPError, ApiException):
            self.core.read_namespace("default")
            return True
        process = self._processes["kube-apiserver"]
        assert process.poll() is None, (self._directory / "kube-apiserver.log").read_text()[-2000:]
        return False

    def _spawn(self, program: str, *arguments: str) -> None:
        with (self._directory / f"{program}.log").open("ab") as log:
            command = [str(self._assets / program), *arguments]
            self._processes[program] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def kubeconfig_of(url: str, token: str) -> str:
    """The text of a kubeconfig for a server whose certificate is not verified."""
    return (
        "{apiVersion: v1, kind: Config, current-context: test,"
        f" clusters: [{{name: test, cluster: {{server: '{url}', insecure-skip-tls-verify: true}}}}],"
        f" users: [{{name: admin, user: {{token: {token}}}}}],"
        " contexts: [{name: test, context: {cluster: test, user: admin}}]}\n"
    )


def missing_reason() -> str | None:
    """Why no control plane can be started here; None where one can."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver"
    missing = [name for name in ("etcd", "kube-apiserver") if not (Path(assets) / name).exists()]
    if missing:
        return f"there is no {' and no '.join(missing)} in {assets}"
    return None if shutil.which("openssl") else "there is no openssl"


@contextmanager
def running_control_plane() -> Iterator[ControlPlane]:
    """A control plane from `KUBEBUILDER_ASSETS`, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="control-plane-") as directory:
        plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), Path(directory))
        try:
            plane.start()
            yield plane
        finally:
            plane.close()


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """A control plane for a test; skips it with a reason where none can be started."""
    if reason := missing_reason():
        pytest.skip(reason)
    with running_control_plane() as plane:
        yield plane
