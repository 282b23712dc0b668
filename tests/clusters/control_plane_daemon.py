"""A daemon on a control plane: the test does what kubelets and controllers would do, and sees what users see."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from tests.clusters.control_plane import ControlPlane
from tests.daemon import Daemon, running_daemon
from tests.eventually import becomes, eventually

SECONDS_MAX = 120.0
STALE_SECONDS = 2.0
_STARTED = {"startedAt": "2026-01-01T00:00:00Z"}


class Site:
    """A daemon with a namespace of its own, and node `a`."""

    def __init__(self, plane: ControlPlane, daemon: Daemon, namespace: str) -> None:
        self.plane, self.daemon, self.namespace = plane, daemon, namespace

    # what users see

    def readiness(self) -> tuple[int, str]:
        """Status and text of `/readyz`."""
        answer = self.daemon.client.get("/readyz")
        return answer.status_code, answer.text

    def nodes(self) -> Any:
        return self.daemon.client.get("/v1/nodes").json()

    def explained(self, job: int) -> str:
        return str(self.daemon.client.get(f"/v1/jobs/{job}/explain").json()["summary"])

    def job(self, job: int) -> Any:
        return self.daemon.client.get(f"/v1/jobs/{job}").json()

    def is_told(self, job: int, text: str) -> None:
        self.comes(lambda: text in self.explained(job), lambda: self.explained(job))

    def is_not_ready(self, text: str) -> None:
        self.comes(
            lambda: (
                self.readiness()[0] == 503 and text in self.readiness()[1] and text in (self.nodes()["not_ready"] or "")
            ),
            lambda: str(self.readiness()),
        )

    def is_ready(self) -> None:
        self.comes(
            lambda: self.readiness()[0] == 200 and self.nodes()["not_ready"] is None, lambda: str(self.readiness())
        )

    def is_logged_once(self, event: str, text: str) -> None:
        """One line of the log has both, a moment after users can see it."""

        def lines() -> int:
            return sum(event in line and text in line for line in self.daemon.log().splitlines())

        becomes(lines, 1)

    # what they do, and what the cluster does

    def submit(self, **request: Any) -> int:
        answer = self.daemon.client.post("/v1/jobs", json={"command": ["train"], "max_retries": 0, **request})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def pods(self) -> dict[str, str]:
        """Names and uids of the workers' pods."""
        pods = self.plane.core.list_namespaced_pod(self.namespace).items
        return {pod.metadata.name: pod.metadata.uid for pod in pods}

    def workers(self) -> dict[str, str]:
        """Workers that have a pod, and its name."""
        pods = self.plane.core.list_namespaced_pod(self.namespace).items
        return {pod.metadata.labels["elastic-gpu-scheduler/worker"]: pod.metadata.name for pod in pods}

    def pod_of(self, job: int, ordinal: int) -> str:
        """The name of a worker's pod, as soon as there is one."""
        worker = f"{job}-{ordinal}"
        self.comes(lambda: worker in self.workers(), lambda: self.explained(job))
        return self.workers()[worker]

    def run(self, job: int) -> None:
        """Let the node run the job's only worker."""
        self.launch(self.pod_of(job, 1))
        self.runs(job)

    def launch(self, pod: str) -> None:
        """Let the node run a pod."""
        self.plane.bind(self.namespace, pod, "a")
        self.plane.container(self.namespace, pod, "Running", running=_STARTED)

    def runs(self, job: int) -> None:
        """It runs, at its first try."""
        self.comes(lambda: self.job(job)["state"] == "RUNNING", lambda: str(self.job(job)))
        assert (self.job(job)["attempt"], self.job(job)["retries_used"]) == (1, 0)

    def comes(self, holds: Callable[[], bool], what: Callable[[], str]) -> None:
        eventually(holds, lambda: f"{what()}\n{self.daemon.log()}", SECONDS_MAX)


@contextmanager
def site_of(
    plane: ControlPlane,
    directory: Path,
    *,
    ready: bool = True,
    policy: Mapping[str, Any] | None = None,
    http: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Iterator[Site]:
    """`policy`: settings of the planner; `http`: of the address; `changes`: those of Kubernetes."""
    with ExitStack() as stack:
        plane.add_node("a")
        stack.callback(plane.core.delete_node, "a")
        settings = plane.settings()
        named = {
            "namespace": settings.namespace,
            "kubeconfig": settings.kubeconfig,
            "image": settings.image,
            "training_jobs": False,
            "stale_seconds": STALE_SECONDS,
            **changes,
        }
        settings_of = {"cluster": "kubernetes", "kubernetes": named, "policy": policy or {}, "http": http or {}}
        daemon = stack.enter_context(running_daemon(directory, ready=ready, **settings_of))
        site = Site(plane, daemon, named["namespace"])
        yield site
        for name in site.pods():
            with suppress(ApiException):  # it has gone meanwhile
                plane.vanish(site.namespace, name)
