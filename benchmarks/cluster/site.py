"""A scheduler with the settings as shipped on the cluster of KUBECONFIG, in a namespace of its own.

The nodes run on this machine, since workers' pods mount this Python. They offer a resource of the benchmark's own as
slots. Nothing of it is left at the end.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from benchmarks.cluster.pods import PodWatch
from benchmarks.daemon import Daemon
from benchmarks.trouble import Skipped

#: Any image with a shell that the nodes have or can pull: what it runs is mounted.
IMAGE = os.environ.get("SCHED_TEST_IMAGE", "docker.io/local/busybox:1")
ROOT = Path(__file__).resolve().parents[2]
#: What a pod needs of its node to run programs of this machine, and this Python.
SYSTEM = ("/usr", "/lib", "/lib64")
#: Of each worker and each pod of the service, so that none of them starves beside the others.
CPUS = 0.05
_PYTHON = (str(ROOT), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))
#: As in manifests/base/priority-classes.yaml: workers leave for the pods of such services.
_SERVICE_PRIORITY = 100_000
_ANSWER_SECONDS = 30
_WAIT_SECONDS_MAX = 120.0
_JOB_SECONDS_MAX = 600.0


class Site:
    """What users of the cluster do and see."""

    def __init__(self, api: client.ApiClient, namespace: str, daemon: Daemon, watch: PodWatch, shared: Path) -> None:
        self.core: Any = client.CoreV1Api(api)
        self.apps: Any = client.AppsV1Api(api)
        self.namespace = namespace
        self.daemon = daemon
        self.watch = watch
        #: A directory that this process and all workers have.
        self.shared = shared

    @property
    def resource(self) -> str:
        """What a slot is: a resource of this site alone."""
        return _resource(self.namespace)

    @property
    def service_class(self) -> str:
        """The priority class of services; of this site alone, too, though such a class belongs to the cluster."""
        return self.namespace

    def submit(self, name: str, arguments: Sequence[str], workers: tuple[int, int], **fields: Any) -> int:
        """Submit a training with these bounds of workers; `arguments` are Python's."""
        return self.daemon.submit(
            [sys.executable, *arguments],
            name=name,
            workdir=str(ROOT),
            env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            min_workers=workers[0],
            max_workers=workers[1],
            preferred_workers=workers[1],
            cpus_per_worker=CPUS,
            grace_seconds=10.0,
            pod_template=_template((*SYSTEM, *_PYTHON, str(self.shared))),
            **fields,
        )

    def job(self, job: int) -> dict[str, Any]:
        view: dict[str, Any] = self.daemon.get(f"/v1/jobs/{job}")
        return view

    def finished(self, job: int) -> dict[str, Any]:
        """The job once it has succeeded."""
        return self.daemon.wait(job, lambda view: view["state"] == "SUCCEEDED", _JOB_SECONDS_MAX)

    def events(self, job: int) -> list[dict[str, Any]]:
        return list(self.daemon.get("/v1/events", job=job, limit=1000)["events"])


@contextmanager
def running_site(slots: int, nodes_max: int | None = None) -> Iterator[Site]:
    """The scheduler over this number of slots, dealt out evenly among the first nodes by name. Raises `Skipped`."""
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        raise Skipped("it needs KUBECONFIG: the kubeconfig of a Kubernetes cluster whose nodes run on this machine")
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    with ExitStack() as stack:
        api = _client(kubeconfig)
        stack.callback(api.close)
        core: Any = client.CoreV1Api(api)
        nodes = _ready_nodes(core, kubeconfig)[:nodes_max]
        namespace = stack.enter_context(_namespace(api))
        stack.enter_context(_offered(core, nodes, _resource(namespace), slots))
        watch = stack.enter_context(PodWatch(core, namespace, _resource(namespace)))
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sched-bench-")))
        daemon = stack.enter_context(Daemon(1, settings=_settings(kubeconfig, namespace, shared), state_dir=shared))
        _until(lambda: _slots_seen(daemon) == slots, f"the scheduler does not see {slots} slots")
        yield Site(api, namespace, daemon, watch, shared)


def _client(kubeconfig: str) -> client.ApiClient:
    try:
        api: client.ApiClient = config.new_client_from_config(kubeconfig)
    except config.ConfigException as error:
        raise Skipped(f"{kubeconfig} (KUBECONFIG) is no kubeconfig: {' '.join(str(error).split())}") from None
    return api


def _settings(kubeconfig: str, namespace: str, shared: Path) -> Mapping[str, str]:
    """Only where it runs: how it decides is as shipped."""
    return {
        "SCHED_CLUSTER": "kubernetes",
        "SCHED_KUBERNETES__KUBECONFIG": str(Path(kubeconfig).resolve()),
        "SCHED_KUBERNETES__NAMESPACE": namespace,
        "SCHED_KUBERNETES__RESOURCE": _resource(namespace),
        "SCHED_KUBERNETES__TRUST_TEMPLATES": "true",
        "SCHED_KUBERNETES__JOBS_DIR": str(shared / "checkpoints"),
    }


def _resource(namespace: str) -> str:
    return f"scheduler.benchmark/{namespace}"


def host_paths(paths: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of a pod, and the mounts of its container, that have these paths of the node."""
    names = {path: f"host-{number}" for number, path in enumerate(dict.fromkeys(paths))}
    volumes = [{"name": name, "hostPath": {"path": path}} for path, name in names.items()]
    return volumes, [{"name": name, "mountPath": path} for path, name in names.items()]


def _template(paths: Sequence[str]) -> dict[str, Any]:
    """Workers on the network of their node run this Python: the image has a shell only."""
    volumes, mounts = host_paths(paths)
    container = {"name": "worker", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts}
    return {"spec": {"hostNetwork": True, "containers": [container], "volumes": volumes}}


def _ready_nodes(core: Any, kubeconfig: str) -> list[str]:
    try:
        nodes = core.list_node(_request_timeout=_ANSWER_SECONDS).items
    except (urllib3.exceptions.HTTPError, ApiException) as error:
        reason = str(getattr(error, "reason", None) or error).splitlines()[0]
        raise Skipped(f"the cluster of {kubeconfig} (KUBECONFIG) does not answer: {reason}") from None
    ready = [node.metadata.name for node in nodes if _is_ready(node)]
    if not ready:
        raise Skipped(f"the cluster of {kubeconfig} (KUBECONFIG) has no node that is ready")
    return sorted(ready)


def _is_ready(node: Any) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


@contextmanager
def _namespace(api: client.ApiClient) -> Iterator[str]:
    """A namespace, and a priority class of the same name for services."""
    core: Any = client.CoreV1Api(api)
    scheduling: Any = client.SchedulingV1Api(api)
    name = f"sched-benchmark-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": name}})
    try:
        scheduling.create_priority_class(
            {"metadata": {"name": name}, "value": _SERVICE_PRIORITY, "preemptionPolicy": "Never"}
        )
        yield name
    finally:
        with suppress(ApiException):
            scheduling.delete_priority_class(name)
        core.delete_namespace(name, grace_period_seconds=1)
        _until(lambda: not _exists(core, name), f"namespace {name} does not go")


def _exists(core: Any, namespace: str) -> bool:
    try:
        core.read_namespace(namespace)
    except ApiException as error:
        return bool(error.status != 404)
    return True


@contextmanager
def _offered(core: Any, nodes: Sequence[str], resource: str, slots: int) -> Iterator[None]:
    """Let the nodes offer so much of the resource."""
    each, more = divmod(slots, len(nodes))
    try:
        for place, node in enumerate(nodes):
            _offer(core, node, resource, str(each + (place < more)))
        yield
    finally:
        for node in nodes:
            _offer(core, node, resource, None)


def _offer(core: Any, node: str, resource: str, count: str | None) -> None:
    """None: no more of it."""
    core.patch_node_status(node, {"status": {"capacity": {resource: count}, "allocatable": {resource: count}}})

    def offers() -> bool:
        return bool(core.read_node(node).status.allocatable.get(resource) == count)

    _until(offers, f"node {node} does not offer {count or 'nothing'} of {resource}")


def _slots_seen(daemon: Daemon) -> int:
    return sum(node["slots"] for node in daemon.get("/v1/nodes")["nodes"])


def _until(holds: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(0.2)
