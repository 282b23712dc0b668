"""A Kubernetes cluster of 1,000 nodes and 10,000 pods: start, reaction to the end of a pod, and what rest costs.

Etcd and an API server are real; what kubelets and the cluster's scheduler do, the benchmark does. 8,000 workers of
1,350 jobs hold all GPUs and 100 jobs wait; 2,000 pods of others hold CPUs.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import urllib3

from benchmarks.apiserver import ApiServer
from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.trouble import Skipped
from tests.clusters.control_plane import RESOURCE, TOKEN, missing_reason, running_control_plane

NODES, GPUS = 1_000, 8
GANGS, GANG = 950, 8
SINGLES = NODES * GPUS - GANGS * GANG
WAITING = 100
OTHERS = 2_000
EXITS = 20
REST_SECONDS = 60.0
_NAMESPACE, _INSTANCE, _OF_OTHERS = "training", "sched", "default"
#: Resources that the server, which is its own client too, does not ask itself about when nothing happens.
_ASKED_FOR = frozenset({"nodes", "pods", "events", "configmaps", "trainingjobs"})
_NODE = "elastic-gpu-scheduler/node"
_FILL_SECONDS_MAX = 1_200.0
_REACTION_SECONDS_MAX = 60.0
_ASK_SECONDS = 0.005


def run() -> list[Figure]:
    if reason := missing_reason():
        raise Skipped(reason)
    with _cluster() as (api, kubeconfig), tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        state_dir, settings = Path(directory), _settings(kubeconfig)
        # As fast as this machine can, so that filling the cluster does not take longer than all that is measured.
        hasty = {**settings, "SCHED_KUBERNETES__REQUESTS_PER_SECOND": "2000"}
        with Daemon(1, settings=hasty, state_dir=state_dir) as it:
            singles, waiting = _fill(it, api)
        begun = time.time()
        with Daemon(1, settings=settings, state_dir=state_dir) as daemon:
            listed_seconds = _listed_at(state_dir) - begun
            pairs = zip(_apart(singles), waiting, strict=False)
            reactions = [_react(daemon, api, *pair, number % 2) for number, pair in enumerate(pairs)]
            _settle(api)
            cpu_seconds = daemon.cpu_seconds()
            requests = _requests_per_minute(api)
            cpu_seconds = (daemon.cpu_seconds() - cpu_seconds) * 60.0 / REST_SECONDS
            memory = daemon.resident_mib()
    return [
        Figure("start of the daemon until all nodes and pods are listed", listed_seconds, "s"),
        Figure("start of the daemon until it decides", daemon.start_seconds, "s", at_most=10.0),
        *_figures("end of a pod until its end is stored", [stored for stored, _ in reactions]),
        *_figures("end of a pod until the next job's pod is created", [replaced for _, replaced in reactions]),
        Figure("memory", memory, "MiB", at_most=500.0),
        Figure("API requests per minute at rest", requests, "", at_most=60.0),
        Figure("CPU time per minute at rest", cpu_seconds, "s", at_most=3.0),
    ]


def _figures(what: str, seconds: Sequence[float]) -> list[Figure]:
    return [
        Figure(f"{what}, p50", median(seconds), "s"),
        Figure(f"{what}, the slowest", max(seconds), "s", at_most=1.0, note=f"{len(seconds)} ends"),
    ]


def _settings(kubeconfig: Path) -> dict[str, str]:
    return {
        "SCHED_CLUSTER": "kubernetes",
        "SCHED_KUBERNETES__KUBECONFIG": str(kubeconfig),
        "SCHED_KUBERNETES__NAMESPACE": _NAMESPACE,
        "SCHED_KUBERNETES__INSTANCE": _INSTANCE,
        "SCHED_KUBERNETES__RESOURCE": RESOURCE,
        "SCHED_KUBERNETES__IMAGE": "image:1",
    }


@contextmanager
def _cluster() -> Iterator[tuple[ApiServer, Path]]:
    """Nodes, and the pods of others."""
    with ExitStack() as stack:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        plane = stack.enter_context(running_control_plane())
        api = ApiServer(plane.url, TOKEN)
        stack.callback(api.close)
        api.post("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        with ThreadPoolExecutor(api.CONNECTIONS) as hands:
            list(hands.map(lambda number: api.add_node(f"node-{number}", {RESOURCE: str(GPUS)}), range(NODES)))
            list(hands.map(lambda number: _other(api, number), range(OTHERS)))
        yield api, plane.kubeconfig


def _other(api: ApiServer, number: int) -> None:
    name = f"other-{number}"
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "500m"}}}
    pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    api.post(f"/api/v1/namespaces/{_OF_OTHERS}/pods", pod)
    api.run_pod(_OF_OTHERS, name, f"node-{number % NODES}", "main")


def _fill(daemon: Daemon, api: ApiServer) -> tuple[list[int], list[int]]:
    """Jobs until all slots are taken, and all of their workers run; those of one worker, and those that wait."""
    command = {"command": ["python", "train.py"], "max_retries": 0}
    gang = {**command, "workers": GANG}
    daemon.submit_batch([gang] * GANGS)
    singles = daemon.submit_batch([{**command, "workers": 1}] * SINGLES)
    waiting = daemon.submit_batch([{**command, "workers": 1}] * WAITING)
    until, running = time.monotonic() + _FILL_SECONDS_MAX, 0
    while running < NODES * GPUS:
        if time.monotonic() > until:
            raise RuntimeError(f"only {running:,} workers run after {_FILL_SECONDS_MAX:.0f} s")
        running += _settle(api)
        time.sleep(0.2)
    daemon.wait(singles[-1], lambda job: job["state"] == "RUNNING", _FILL_SECONDS_MAX)
    return singles, waiting


def _settle(api: ApiServer) -> int:
    """Run every worker that waits for a node on the one that it was sent to; how many these were."""
    unbound = api.get(f"/api/v1/namespaces/{_NAMESPACE}/pods?fieldSelector=spec.nodeName%3D")["items"]

    def start(pod: Any) -> None:
        metadata = pod["metadata"]
        api.run_pod(_NAMESPACE, metadata["name"], metadata["annotations"][_NODE], "worker")

    with ThreadPoolExecutor(api.CONNECTIONS) as hands:
        return len(list(hands.map(start, unbound)))


def _react(daemon: Daemon, api: ApiServer, ends: int, waits: int, exit_code: int) -> tuple[float, float]:
    """Seconds from a pod's end until the daemon has stored it, and until it has created the next job's pod."""
    after = daemon.get("/v1/events", after=-1)["next"]
    began = time.monotonic()
    api.end_pod(_NAMESPACE, f"{_INSTANCE}-{ends}-1", "worker", exit_code)
    events: list[Any] = []
    while not any(event["kind"] == "WORKER_ENDED" for event in events):
        page = daemon.get("/v1/events", job=ends, after=after, wait=10.0)
        events, after = page["events"], page["next"]
        _check(began, f"the end of job {ends}")
    stored = time.monotonic() - began
    while not api.exists(f"/api/v1/namespaces/{_NAMESPACE}/pods/{_INSTANCE}-{waits}-1"):
        _check(began, f"the pod of job {waits}")
        time.sleep(_ASK_SECONDS)
    return stored, time.monotonic() - began


def _apart(jobs: Sequence[int]) -> Sequence[int]:
    """`EXITS` jobs, no two on one node: a node on which many workers fail would be quarantined."""
    return jobs[:: len(jobs) // EXITS][:EXITS]


def _check(began: float, what: str) -> None:
    if time.monotonic() - began > _REACTION_SECONDS_MAX:
        raise RuntimeError(f"{what} did not come in {_REACTION_SECONDS_MAX:.0f} s")


def _requests_per_minute(api: ApiServer) -> float:
    """What the server is asked of all that a scheduler may ask, while the benchmark asks nothing."""
    before = api.requests_total(_ASKED_FOR)
    time.sleep(REST_SECONDS)
    return (api.requests_total(_ASKED_FOR) - before) * 60.0 / REST_SECONDS


def _listed_at(state_dir: Path) -> float:
    """When the daemon had read all pods, by its log."""
    lines = map(json.loads, (state_dir / "daemon.log").read_text().splitlines())
    listed = [line for line in lines if line.get("event") == "kubernetes: listed" and line["kind"] == "pods"]
    return datetime.fromisoformat(listed[-1]["timestamp"]).timestamp()
