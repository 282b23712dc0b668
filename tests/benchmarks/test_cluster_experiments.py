"""The experiments on real parts, shorter than the benchmark runs them: what happens, and not how fast.

They need the cluster of `KUBECONFIG`, with nodes that run on this machine, and use its first node alone: other tests
let the second one fail.
"""

import math
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks import cluster_experiments
from benchmarks.cluster import beside_service, convergence, two_jobs
from benchmarks.cluster.autoscaler import TARGET, desired
from benchmarks.cluster.load import PER_CONNECTION, Answers, load
from benchmarks.cluster.pods import SeenPod, moments, used_share
from benchmarks.cluster.site import running_site
from benchmarks.trouble import Skipped

needs_a_cluster = pytest.mark.skipif(
    not (os.environ.get("KUBECONFIG") and os.environ.get("SCHED_TEST_INSTALLED")),
    reason="KUBECONFIG names no cluster, or SCHED_TEST_INSTALLED is not set: experiments take minutes",
)
needs_wrk = pytest.mark.skipif(not shutil.which("wrk"), reason="no wrk here: apt-get install wrk")
needs_nginx = pytest.mark.skipif(
    not (shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")),
    reason="no nginx here: apt-get install nginx-light",
)


@needs_a_cluster
@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.torch
def test_elastic_jobs_run_side_by_side_where_gangs_run_one_after_the_other() -> None:
    with running_site(two_jobs.SLOTS, nodes_max=1) as site:
        elastic = two_jobs.train_two(site, 1, epochs=3, second_seconds=4.0)
        gang = two_jobs.train_two(site, two_jobs.WORKERS, epochs=3, second_seconds=4.0)
    assert (elastic.first_workers, elastic.second_workers) == (two_jobs.WORKERS, two_jobs.SLOTS - two_jobs.WORKERS)
    assert elastic.side_by_side
    assert (gang.first_workers, gang.second_workers) == (two_jobs.WORKERS, two_jobs.WORKERS)
    assert not gang.side_by_side


@needs_a_cluster
@needs_nginx
@needs_wrk
@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.torch
def test_training_leaves_for_a_service_that_grows_with_its_load() -> None:
    with running_site(6, nodes_max=1) as site:
        course = beside_service.train_beside(site, (1, 6), 6, phases=((8.0, 1), (20.0, 3), (12.0, 1)))
    assert course.service_most >= 2
    assert course.service
    assert all(wait < math.inf for wait in course.waits), "every pod of the service got room"
    assert course.leaves
    assert set(course.shrunk) == {"FOREIGN"}
    assert course.samples > 0
    assert course.answers.requests > 0
    assert 0.0 < course.used_share <= 1.0


@needs_a_cluster
@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.torch
def test_each_sample_and_each_shard_counts_once_whoever_comes_and_goes() -> None:
    with running_site(convergence.SLOTS, nodes_max=1) as site:
        outcomes = convergence.train_all(site, 1, records=12_288, epochs=2)
    assert {key: outcome.wrong for key, outcome in outcomes.items()} == dict.fromkeys(outcomes, 0)
    assert all(outcome.auc > 0.5 for outcome in outcomes.values())
    assert outcomes[convergence.PARAMETER_SERVERS, True].resizes > 0
    assert outcomes[convergence.PARAMETER_SERVERS, False].resizes == 0


def test_without_a_cluster_it_says_in_one_line_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(Skipped, match=r"^it needs KUBECONFIG: [^\n]+ on this machine$"):
        cluster_experiments.run()


def test_an_experiment_that_does_not_exist_is_named() -> None:
    with pytest.raises(Skipped, match="no experiment '4': there are 1, 2, 3"):
        cluster_experiments.run(experiments="1,4")


def pods() -> list[SeenPod]:
    return [
        SeenPod("never-bound", None, 4, created_at=0.0),
        SeenPod("web", None, 1, created_at=0.0, bound_at=2.0),
        SeenPod("worker", 7, 2, created_at=0.0, bound_at=0.0, gone_at=6.0),
    ]


def test_use_counts_what_bound_pods_request_until_they_are_gone() -> None:
    assert used_share(pods(), 4, 0.0, 10.0) == pytest.approx((8.0 + 12.0) / 40.0)
    assert used_share(pods(), 4, 4.0, 8.0) == pytest.approx((4.0 + 4.0) / 16.0)


def test_the_slots_held_are_told_from_each_change_on() -> None:
    assert list(moments(pods(), 1.0, 10.0)) == [(1.0, 2), (2.0, 3), (6.0, 1)]


def test_an_autoscaler_wants_no_pod_to_have_more_than_its_target() -> None:
    assert [desired(rate, 3) for rate in (0.0, TARGET, TARGET + 1, 100 * TARGET)] == [1, 1, 2, 3]


def test_answers_of_several_phases_have_one_percentile() -> None:
    answers = Answers()
    answers.add('Running\nCOUNTED {"requests": 98, "failed": 1, "latency": [[1000, 98]]}\n')
    answers.add('COUNTED {"requests": 2, "failed": 0, "latency": [[9000, 1], [50000, 1]]}\n')
    assert (answers.requests, answers.failed) == (100, 1)
    assert [answers.percentile_ms(share) for share in (0.5, 0.98, 0.99, 1.0)] == [1.0, 1.0, 9.0, 50.0]
    with pytest.raises(RuntimeError, match="not expected"):
        answers.add("Running\n")


class Welcome(BaseHTTPRequestHandler):
    """Answers everything, and says nothing of it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@needs_wrk
def test_a_connection_asks_no_faster_than_it_is_told() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Welcome) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers = load(f"127.0.0.1:{server.server_address[1]}", [(1.0, 1), (1.0, 3)])
        server.shutdown()
    assert 0 < answers.requests <= 4 * (PER_CONNECTION + 1)
    assert answers.latency.total() == answers.requests
    assert answers.failed == 0


@needs_wrk
def test_the_load_goes_to_private_addresses_only_and_has_bounds() -> None:
    with pytest.raises(Skipped, match="no address of a cluster on this machine"):
        load("8.8.8.8:80", [(1.0, 1)])
    with pytest.raises(ValueError, match="at most 64 connections"):
        load("127.0.0.1:1", [(1.0, 65)])
    with pytest.raises(ValueError, match="300 s in all"):
        load("127.0.0.1:1", [(200.0, 1), (200.0, 1)])
