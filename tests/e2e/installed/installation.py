"""An installation on a real cluster, as the manual says, and what its users do and see there."""

import base64
import json
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from tests.eventually import becomes, eventually

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
#: Of the daemon, and of workers.
SYSTEM, JOBS = "sched-system", "sched-jobs"
#: Images have the names of the manual.
TRAINING_IMAGE = "elastic-training"
WORKER = {"name": "worker", "image": TRAINING_IMAGE, "imagePullPolicy": "IfNotPresent"}
#: With a folder for checkpoints that each worker has for itself, for scripts that write some.
WITH_CHECKPOINTS = {
    "spec": {
        "volumes": [{"name": "checkpoints", "emptyDir": {}}],
        "containers": [{**WORKER, "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}]}],
    }
}
JOB, ROLE = "elastic-gpu-scheduler/job", "elastic-gpu-scheduler/role"
SECONDS_MAX = 300.0
#: Of a training that does not end before it is deleted.
EPOCHS = 1000
#: What kubectl says once it listens.
FORWARDS = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


class Installation:
    """What an administrator does is done by `kubectl`; what there is, is read from the API server and the daemon."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._api = config.new_client_from_config(str(kubeconfig))
        self.core = client.CoreV1Api(self._api)
        self._custom = client.CustomObjectsApi(self._api)

    def close(self) -> None:
        self._api.close()

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What the command prints; it has to succeed."""
        command = ["kubectl", f"--kubeconfig={self._kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    # what administrators do

    def install(self, overlay: str, database: Mapping[str, str] | None = None) -> None:
        """With a token, and what the daemon is told of its database, in secrets."""
        self.kubectl("apply", "-f", str(MANIFESTS / "base" / "namespace.yaml"))
        self._secret("sched", {"token": secrets.token_hex(16)})
        if database is not None:
            self._secret("sched-database", database)
        self.kubectl("apply", "-k", str(MANIFESTS / "overlays" / overlay))
        self.await_rollout()

    def await_rollout(self) -> None:
        self.kubectl("-n", SYSTEM, "rollout", "status", "deployment/sched", f"--timeout={SECONDS_MAX:.0f}s")

    def remove(self, overlay: str) -> None:
        """All of it, trainings first: the daemon has to let go of them."""
        self.delete_trainings()
        path = str(MANIFESTS / "overlays" / overlay)
        self.kubectl("delete", "-k", path, "--ignore-not-found", f"--timeout={SECONDS_MAX:.0f}s")

    def _secret(self, name: str, values: Mapping[str, str]) -> None:
        literals = (f"--from-literal={key}={value}" for key, value in values.items())
        self.kubectl("-n", SYSTEM, "create", "secret", "generic", name, *literals)

    # what users do

    def submit(self, name: str, workers: tuple[int, int], command: list[str], **fields: Any) -> None:
        """A TrainingJob whose workers have the image with torch and the examples."""
        spec = {
            "command": command,
            "minWorkers": workers[0],
            "maxWorkers": workers[1],
            "env": {"OMP_NUM_THREADS": "1"},
            "graceSeconds": 10,
            "template": {"spec": {"containers": [WORKER]}},
            **fields,
        }
        metadata = {"name": name, "namespace": JOBS}
        manifest = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump(manifest))

    def train(self, name: str, workers: tuple[int, int], epochs: int, **fields: Any) -> None:
        """An elastic training that checks that each sample is seen exactly once per epoch."""
        command = ["python", "/training/digits.py", "--epochs", str(epochs), "--sample-seconds", "0.01"]
        self.submit(name, workers, command, runtime="elastic", **fields)

    def delete_trainings(self) -> None:
        """All of them; they go when their last worker is gone."""
        self.kubectl("-n", JOBS, "delete", PLURAL, "--all", f"--timeout={SECONDS_MAX:.0f}s")

    @contextmanager
    def forwarded(self, what: str = "service/sched") -> Iterator[httpx.Client]:
        """The daemon's port on this machine, with the token."""
        command = ["kubectl", f"--kubeconfig={self._kubeconfig}", "-n", SYSTEM, "port-forward", what, ":8470"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            said = FORWARDS.match(process.stdout.readline())
            assert said, "kubectl forwards no port"
            headers = {"authorization": f"Bearer {self.token()}"}
            with httpx.Client(base_url=f"http://127.0.0.1:{said[1]}", headers=headers, timeout=30.0) as users:
                yield users
        finally:
            process.terminate()
            process.communicate()

    # what they see

    def token(self) -> str:
        secret = self.core.read_namespaced_secret("sched", SYSTEM)
        return base64.b64decode(secret.data["token"]).decode()

    def has_module(self, name: str) -> bool:
        """Whether the Python of the trainings' image has it."""
        look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
        self.submit(f"has-{name}", (1, 1), ["python", "-c", look], maxRetries=0)
        ended = ("Succeeded", "Failed")
        phase = eventually(lambda: self._phase_of(f"has-{name}", ended), "a worker does not end", SECONDS_MAX)
        return phase == "Succeeded"

    def _phase_of(self, name: str, phases: tuple[str, ...]) -> str | None:
        phase = self.status(name).get("phase")
        return phase if phase in phases else None

    def status(self, name: str) -> dict[str, Any]:
        try:
            item = self._custom.get_namespaced_custom_object(GROUP, VERSION, JOBS, PLURAL, name)
        except ApiException as error:
            if error.status != 404:
                raise
            return {}
        found: dict[str, Any] = item.get("status") or {}
        return found

    def await_phase(self, name: str, phase: str, workers: int | None = None) -> dict[str, Any]:
        """The status, once the training has that phase and as many workers."""

        def seen() -> bool:
            status = self.status(name)
            assert phase == "Failed" or status.get("phase") != "Failed", status
            return status.get("phase") == phase and workers in (None, status.get("workers"))

        what = f"{name} is not {phase}" + (f" with {workers} workers" if workers is not None else "")
        eventually(seen, lambda: f"{what}: {json.dumps(self.status(name))}", SECONDS_MAX)
        return self.status(name)

    def workers(self, name: str, role: str = "worker") -> list[client.V1Pod]:
        """Pods of a training's workers that run."""
        selector = f"{ROLE}={role},{JOB}={self.status(name)['jobId']}"
        pods = self.core.list_namespaced_pod(JOBS, label_selector=selector).items
        return [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]

    def await_workers(self, name: str, count: int) -> list[client.V1Pod]:
        """Running pods of a training's workers, once there are `count`: nodes report that later than the workers do."""
        becomes(lambda: len(self.workers(name)), count, SECONDS_MAX)
        return self.workers(name)

    def daemons(self) -> list[client.V1Pod]:
        """Pods of the daemon that are ready and not being deleted."""
        selector = "app.kubernetes.io/component=daemon"
        pods = self.core.list_namespaced_pod(SYSTEM, label_selector=selector).items
        return [pod for pod in pods if pod.metadata.deletion_timestamp is None and _ready(pod)]


def _ready(pod: client.V1Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())


def names(pods: list[client.V1Pod]) -> set[str]:
    return {pod.metadata.name for pod in pods}


def nodes_of(pods: list[client.V1Pod]) -> set[str]:
    return {pod.spec.node_name for pod in pods}


def job(users: httpx.Client, name: str) -> dict[str, object]:
    (found,) = users.get("/v1/jobs", params={"name": name, "active": "true"}).json()["jobs"]
    return dict(found)


def goes_on(users: httpx.Client, name: str) -> None:
    """It comes to a later step than it is at now."""

    def step() -> int:
        return int(job(users, name)["progress"]["step"] or 0)  # type: ignore[index]

    before = step()
    eventually(lambda: step() > before, lambda: f"it makes no progress: {job(users, name)}", SECONDS_MAX)
