"""A daemon and a real Kubernetes cluster: what users see of their jobs, and what is left when all is over."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.clusters.kubernetes.pods import PREFIX
from tests.clusters.desk import Manner, shell
from tests.clusters.kubernetes_desk import IMAGE, TEMPLATE, TestCluster
from tests.daemon import Daemon, running_daemon
from tests.eventually import becomes, eventually

pytestmark = pytest.mark.kubernetes

SECONDS_MAX = 120.0
POLITE = list(shell(Manner.POLITE))


class Site:
    """A daemon whose workers are pods of the test's namespace."""

    def __init__(self, daemon: Daemon, where: TestCluster, instance: str) -> None:
        self.daemon, self.where, self.instance = daemon, where, instance

    def submit(self, **request: Any) -> int:
        body = {"command": POLITE, "grace_seconds": 5, "pod_template": json.loads(TEMPLATE), **request}
        answer = self.daemon.client.post("/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def job(self, number: int) -> Any:
        return self.daemon.client.get(f"/v1/jobs/{number}").json()

    def reaches(self, number: int, state: str, workers: int = 0) -> Any:
        eventually(lambda: self._is(number, state, workers), lambda: str(self.job(number)), SECONDS_MAX)
        return self.job(number)

    def causes(self, number: int) -> list[str]:
        """Why workers of the job have ended."""
        events = self.daemon.client.get("/v1/events", params={"job": number, "limit": 1000}).json()["events"]
        return [event["cause"] for event in events if event["kind"] == "WORKER_ENDED"]

    def pods(self) -> dict[str, str]:
        """Names and uids of the pods that there are."""
        return {pod.metadata.name: pod.metadata.uid for pod in self.where.pods(self.instance)}

    def _is(self, number: int, state: str, workers: int) -> bool:
        job = self.job(number)
        return bool(job["state"] == state and (job["workers"], job["members"]) == (workers, workers))


@pytest.fixture
def site(kubernetes: TestCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Its parameters are further settings."""
    settings = kubernetes.settings()
    named = {
        key: getattr(settings, key) for key in ("namespace", "kubeconfig", "resource", "instance", "trust_templates")
    }
    more = getattr(request, "param", {})
    with running_daemon(tmp_path, cluster="kubernetes", kubernetes={**named, **more}) as daemon:
        yield Site(daemon, kubernetes, settings.instance)
        kubernetes.sweep(settings.instance)


@pytest.mark.slow
def test_a_job_grows_survives_the_loss_of_a_pod_and_of_the_daemon_and_leaves_nothing_behind(site: Site) -> None:
    number = site.submit(min_workers=1, max_workers=4)
    site.reaches(number, "RUNNING", 4)
    before = site.pods()
    assert len(before) == 4

    removed = min(before)
    site.where.core.delete_namespaced_pod(removed, site.where.namespace, grace_period_seconds=1)
    becomes(lambda: site.causes(number), ["REMOVED"], SECONDS_MAX)
    job = site.reaches(number, "RUNNING", 4)
    assert job["retries_used"] == 0

    eventually(lambda: len(site.pods()) == 4 and removed not in site.pods(), lambda: str(site.pods()), SECONDS_MAX)
    after = site.pods()
    site.daemon.restart()
    site.reaches(number, "RUNNING", 4)
    assert site.pods() == after

    site.daemon.client.post(f"/v1/jobs/{number}/cancel").raise_for_status()
    site.reaches(number, "CANCELLED")
    becomes(site.pods, {}, SECONDS_MAX)
    assert set(site.causes(number)) == {"REMOVED", "ASKED"}


@pytest.mark.slow
@pytest.mark.parametrize("site", [{"launch_limit_seconds": 3.0}], indirect=True)
def test_a_job_whose_pods_cannot_be_had_fails_and_says_why_and_its_slots_return(site: Site) -> None:
    template = {"spec": {"nodeSelector": {"no-such": "label"}, **json.loads(TEMPLATE)["spec"]}}
    number = site.submit(pod_template=template, max_retries=0)
    eventually(
        lambda: "Unschedulable" in site.daemon.client.get(f"/v1/jobs/{number}/explain").text,
        "it is not said that the pod finds no room",
        SECONDS_MAX,
    )
    job = site.reaches(number, "FAILED")
    assert "LAUNCH_FAILED" in job["detail"]
    assert "Unschedulable" in job["detail"]
    refused = site.submit(pod_template={"spec": {"dnsPolicy": "Bogus"}}, max_retries=0)
    assert "image" in site.reaches(refused, "FAILED")["detail"]
    becomes(site.pods, {}, SECONDS_MAX)
    nodes = site.daemon.client.get("/v1/nodes").json()["nodes"]
    assert sum(node["slots_used"] for node in nodes) == 0


@pytest.mark.slow
def test_a_fixed_group_is_pods_of_its_own_template_that_come_first_and_go_last(site: Site) -> None:
    template = {**json.loads(TEMPLATE), "metadata": {"labels": {"part": "server"}}}
    number = site.submit(workers=2, fixed={"replicas": 1, "command": POLITE, "pod_template": template})
    job = site.reaches(number, "RUNNING", 2)
    pods = {pod.metadata.labels[f"{PREFIX}/worker"]: pod for pod in site.where.pods(site.instance)}
    server, *others = (pods[worker["id"]] for worker in job["live_workers"])
    assert [pod.metadata.labels[f"{PREFIX}/role"] for pod in (server, *others)] == ["fixed", "worker", "worker"]
    assert [pod.metadata.labels.get("part") for pod in (server, *others)] == ["server", None, None]
    assert all(pod.metadata.creation_timestamp >= server.metadata.creation_timestamp for pod in others)
    assert _variables(others[0])["SCHED_FIXED_HOSTS"] == job["fixed"]["hosts"][0]
    assert _variables(server)["SCHED_ROLE"] == "fixed"

    site.daemon.client.post(f"/v1/jobs/{number}/cancel").raise_for_status()
    site.reaches(number, "CANCELLED")
    events = site.daemon.client.get("/v1/events", params={"job": number, "limit": 1000}).json()["events"]
    ended = [event["worker_id"] for event in events if event["kind"] == "WORKER_ENDED"]
    assert ended[-1] == job["live_workers"][0]["id"]
    becomes(site.pods, {}, SECONDS_MAX)


@pytest.mark.slow
def test_what_workers_wrote_until_they_were_made_to_leave_is_there_when_their_pods_are_gone(site: Site) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    number = site.submit(command=["sh", "-c", script], workers=2, max_retries=0)

    def logs() -> list[str]:
        paths = [f"/v1/jobs/{number}/logs?worker={number}-{ordinal}" for ordinal in (1, 2)]
        return [site.daemon.client.get(path).text for path in paths]

    becomes(logs, ["begun\n"] * 2, SECONDS_MAX)
    site.daemon.client.post(f"/v1/jobs/{number}/cancel").raise_for_status()
    site.reaches(number, "CANCELLED")
    becomes(site.pods, {}, SECONDS_MAX)
    becomes(logs, ["begun\nasked\n"] * 2)


#: Once. The `nslookup` of busybox knows whole names only.
LOOK_UP = "look_up() { nslookup \"$1.$(sed -n 's/^search.* //p' /etc/resolv.conf)\"; }"


@pytest.fixture
def pod_network(kubernetes: TestCluster) -> None:
    """Pods have addresses and names of their own; skips where they do not."""
    core, namespace = kubernetes.core, kubernetes.namespace
    lookup = ["sh", "-c", f"{LOOK_UP}; look_up kubernetes.default.svc"]
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": lookup}
    body = {"metadata": {"name": "lookup"}, "spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    core.create_namespaced_pod(namespace, body)
    try:
        becomes(lambda: core.read_namespaced_pod("lookup", namespace).status.phase, "Succeeded", SECONDS_MAX)
    except AssertionError:
        pytest.skip("pods of the cluster of KUBECONFIG have no names of their own")
    finally:
        core.delete_namespaced_pod("lookup", namespace, body={"gracePeriodSeconds": 0})


@pytest.mark.slow
@pytest.mark.usefixtures("pod_network")
@pytest.mark.parametrize("site", [{"names_image": IMAGE}], indirect=True)
def test_a_worker_that_looks_names_up_once_finds_its_own_and_that_of_rank_0(site: Site) -> None:
    template = json.loads(TEMPLATE)
    del template["spec"]["hostNetwork"]
    looks = f'{LOOK_UP}; look_up "$MASTER_ADDR" && look_up "$(hostname).${{MASTER_ADDR#*.}}"'
    script = f"if {{ {looks}; }} >/dev/null; then echo found; else echo lost; fi; exec sleep 600"
    number = site.submit(command=["sh", "-c", script], workers=4, max_retries=0, pod_template=template)
    paths = [f"/v1/jobs/{number}/logs?worker={number}-{ordinal}" for ordinal in range(1, 5)]
    becomes(lambda: [site.daemon.client.get(path).text for path in paths], ["found\n"] * 4, SECONDS_MAX)
    site.daemon.client.post(f"/v1/jobs/{number}/cancel").raise_for_status()
    site.reaches(number, "CANCELLED")


def _variables(pod: Any) -> dict[str, str]:
    return {each.name: each.value for each in pod.spec.containers[0].env}
