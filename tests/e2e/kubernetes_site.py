"""Two replicas of the daemon that share a real Kubernetes cluster, and what their users do and see."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil
from kubernetes import client, config

from tests.clusters.kubernetes_desk import TestCluster, install_training_jobs
from tests.daemon import ROOT, Daemon
from tests.eventually import becomes, eventually

RESOURCE = "scheduler.test/gpu"
SLOTS_PER_NODE = 2
SECONDS_MAX = 300.0
#: Labels of workers' pods.
JOB, WORKER = "elastic-gpu-scheduler/job", "elastic-gpu-scheduler/worker"
#: What a pod needs of the host to run this Python.
MOUNTS = (
    "/usr",
    "/lib",
    "/lib64",
    str(ROOT.resolve()),
    os.path.realpath(sys.prefix),
    os.path.realpath(sys.base_prefix),
)


class Site:
    """Two replicas, and what their users do and see."""

    def __init__(self, directory: Path, cluster: TestCluster, database: str) -> None:
        self.cluster = cluster
        self.checkpoints = directory / "checkpoints"
        self.checkpoints.mkdir()
        self.kubernetes = cluster.settings(resource=RESOURCE)
        settings = {
            "cluster": "kubernetes",
            "kubernetes": {
                "namespace": self.kubernetes.namespace,
                "instance": self.kubernetes.instance,
                "kubeconfig": str(self.kubernetes.kubeconfig),
                "resource": RESOURCE,
                # They run what lies on the nodes.
                "trust_templates": True,
                "jobs_dir": str(self.checkpoints),
                # The services of the tests have the priority of all pods without a class, as the workers do.
                "yield_to_priority": 0,
            },
            "engine": {"backoff_seconds": 0.2},
        }
        self.replicas = [Daemon(directory / name, settings, database_url=database) for name in ("a", "b")]
        self._api = config.new_client_from_config(str(cluster.kubeconfig))
        self.custom = client.CustomObjectsApi(self._api)
        install_training_jobs(self._api)

    def start(self) -> None:
        for replica in self.replicas:
            replica.start()

    def close(self) -> None:
        for replica in self.replicas:
            replica.kill()
            replica.client.close()
        self.cluster.sweep(self.kubernetes.instance)
        self._api.close()

    def leave_nothing(self) -> None:
        """No pod of ours is left once all jobs have ended."""
        for job in self._get("/v1/jobs", active="true", limit=100)["jobs"]:
            self.leader.client.post(f"/v1/jobs/{job['id']}/cancel")
        becomes(lambda: self.cluster.pods(self.kubernetes.instance), [], SECONDS_MAX)

    @property
    def leader(self) -> Daemon:
        found: list[Daemon] = []

        def seen() -> bool:
            found[:] = [each for each in self.replicas if role(each) == "leader"]
            return bool(found)

        eventually(seen, "nobody leads", SECONDS_MAX)
        return found[0]

    # what users do

    def submit(
        self, name: str, workers: tuple[int, int], *, sample_seconds: float = 0.006, epochs: int = 400, **fields: Any
    ) -> int:
        """An elastic training job that checks that each sample is seen exactly once per epoch."""
        command = [sys.executable, str(ROOT / "examples" / "digits.py")]
        body = {
            "name": name,
            "command": [*command, "--epochs", str(epochs), "--sample-seconds", str(sample_seconds)],
            "runtime": "elastic",
            "workdir": str(ROOT),
            "env": {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            "min_workers": workers[0],
            "max_workers": workers[1],
            "grace_seconds": 10.0,
            "pod_template": pod_template(self.checkpoints),
            **fields,
        }
        answer = self.leader.client.post("/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def post(self, path: str, **body: Any) -> None:
        answer = self.leader.client.post(path, json=body or None)
        assert answer.status_code < 300, answer.text

    # what they see

    def job(self, job: int) -> dict[str, Any]:
        return self._get(f"/v1/jobs/{job}")

    def await_job(self, job: int, state: str, workers: int | None = None) -> None:
        def seen() -> bool:
            view = self.job(job)
            return view["state"] == state and workers in (None, view["workers"])

        eventually(seen, lambda: f"job {job} is not {state} with {workers} workers: {self.job(job)}", SECONDS_MAX)

    def pods(self, job: int) -> dict[str, str]:
        """Worker to node of the job's pods that run."""
        pods = self.cluster.pods(self.kubernetes.instance)
        of_job = [pod for pod in pods if pod.metadata.labels[JOB] == str(job)]
        return {
            pod.metadata.labels[WORKER]: pod.spec.node_name
            for pod in of_job
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        }

    def running_pods(self, job: int, count: int) -> dict[str, str]:
        """Worker to node of the job's running pods, once there are `count`: nodes report that later than workers do."""
        eventually(lambda: len(self.pods(job)) == count, lambda: str(self.pods(job)), SECONDS_MAX)
        return self.pods(job)

    def explained(self, job: int) -> str:
        return str(self._get(f"/v1/jobs/{job}/explain")["summary"])

    def events(self, job: int, kind: str) -> list[dict[str, Any]]:
        events = self._get("/v1/events", job=job, limit=1000)["events"]
        return [event for event in events if event["kind"] == kind]

    def trained(self, job: int, beyond: int = -1) -> int:
        """The step that it has come to, once that is beyond another; nothing reported yet counts as 0."""

        def step() -> int:
            return int(self.job(job)["progress"]["step"] or 0)

        eventually(lambda: step() > beyond, lambda: f"it makes no progress: {self.job(job)}", SECONDS_MAX)
        return step()

    def no_failure(self, job: int) -> None:
        view = self.job(job)
        assert (view["attempt"], view["retries_used"]) == (1, 0), view

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self.leader.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def pod_template(checkpoints: Path) -> dict[str, Any]:
    """Runs the host's Python: the image has a shell only."""
    paths = dict.fromkeys((*MOUNTS, str(checkpoints)))
    names = {path: f"host-{index}" for index, path in enumerate(paths)}
    container = {
        "name": "worker",
        "image": os.environ.get("SCHED_TEST_IMAGE", "docker.io/local/busybox:1"),
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": name, "mountPath": path} for path, name in names.items()],
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for path, name in names.items()]
    return {"spec": {"hostNetwork": True, "containers": [container], "volumes": volumes}}


def role(replica: Daemon) -> str | None:
    answer = replica.client.get("/readyz")
    return str(answer.json()["role"]) if answer.status_code == 200 else None


def process_of(site: Site, worker: str) -> psutil.Process:
    """The training process of a worker of these replicas, which runs on this machine as the nodes do."""
    for process in psutil.process_iter():
        try:
            variables = process.environ()
            ours = variables.get("SCHED_CHECKPOINT_DIR", "").startswith(str(site.checkpoints))
            if ours and variables.get("SCHED_WORKER_ID") == worker and "digits.py" in " ".join(process.cmdline()):
                return process
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    raise AssertionError(f"no process of worker {worker}")
