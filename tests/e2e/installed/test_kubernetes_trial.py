"""The trial overlay: `examples/kubernetes/try.sh` brings it to the cluster; what may happen to it costs no training."""

import os
import shlex
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.docs.blocks import blocks, shows
from tests.e2e.installed.installation import (
    EPOCHS,
    ROOT,
    SYSTEM,
    WITH_CHECKPOINTS,
    Installation,
    goes_on,
    job,
    names,
    nodes_of,
)
from tests.eventually import becomes

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(1800)]

TRY = ROOT / "examples" / "kubernetes" / "try.sh"
TUTORIAL = ROOT / "docs" / "tutorial-kubernetes.md"
SECONDS_MAX = 300.0
#: As the cluster of these tests has: two CPUs on each of two nodes, of which the daemon takes a part.
WORKERS = 3


@pytest.fixture(scope="module")
def tried(cluster: Installation) -> Iterator[str]:
    """What `try.sh` prints. The installation stays for the other tests."""
    try:
        done = subprocess.run([TRY], capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        yield done.stdout
    finally:
        subprocess.run([TRY, "clean"], check=True, timeout=900)


@pytest.fixture
def trial(cluster: Installation, tried: str) -> Iterator[Installation]:
    """Without trainings before and after."""
    cluster.delete_trainings()
    yield cluster
    cluster.delete_trainings()


def test_the_script_trains_as_the_tutorial_shows(tried: str) -> None:
    (shown,) = (each for each in blocks(TUTORIAL) if "== Install" in each.text)
    assert shows(shown.text, tried), tried


def test_workers_meet_by_the_names_of_their_pods_over_both_nodes_and_have_no_token(trial: Installation) -> None:
    trial.train("meet", (2, WORKERS), epochs=1)
    trial.await_phase("meet", "Running", workers=WORKERS)
    pods = trial.await_workers("meet", WORKERS)
    assert len(nodes_of(pods)) == 2
    for pod in pods:
        assert not pod.spec.host_network
        assert not [volume.name for volume in pod.spec.volumes or ()]
    trial.await_phase("meet", "Succeeded")
    assert trial.status("meet")["attempt"] == 1


def test_a_training_does_not_notice_that_the_daemons_pod_is_deleted_and_that_it_is_upgraded(
    trial: Installation,
) -> None:
    trial.train("kept", (2, WORKERS), EPOCHS)
    trial.await_phase("kept", "Running", workers=WORKERS)
    workers, daemons = names(trial.await_workers("kept", WORKERS)), names(trial.daemons())
    trial.kubectl("-n", SYSTEM, "delete", "pod", *daemons)
    trial.await_rollout()
    assert not names(trial.daemons()) & daemons
    trial.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/sched")
    trial.await_rollout()
    with trial.forwarded() as users:
        goes_on(users, "kept")
    status = trial.await_phase("kept", "Running", workers=WORKERS)
    assert (names(trial.workers("kept")), status["attempt"]) == (workers, 1)


def test_the_page_comes_through_a_forwarded_port_and_its_data_with_the_token_alone(trial: Installation) -> None:
    with trial.forwarded() as users:
        assert "<title>" in users.get("/").text
        assert users.get("/v1/nodes").status_code == httpx.codes.OK
        assert (
            users.get("/v1/nodes", headers={"authorization": "Bearer guessed"}).status_code == httpx.codes.UNAUTHORIZED
        )


def test_a_node_is_lost_and_comes_back_while_a_job_trains(trial: Installation) -> None:
    if not os.environ.get("SCHED_TEST_KILL_NODE"):
        pytest.skip("SCHED_TEST_KILL_NODE names no command")
    trial.train("spread", (1, WORKERS), EPOCHS)
    trial.await_phase("spread", "Running", workers=WORKERS)
    (lost,) = nodes_of(trial.await_workers("spread", WORKERS)) - nodes_of(trial.daemons())
    with trial.forwarded() as users:
        node_command("SCHED_TEST_KILL_NODE", lost)
        try:
            # What is out of reach is not gone: its slots are its workers' until the node is back.
            becomes(lambda: job(users, "spread")["members"], 1, SECONDS_MAX)
            goes_on(users, "spread")
        finally:
            node_command("SCHED_TEST_START_NODE", lost)
        trial.await_phase("spread", "Running", workers=WORKERS)
        assert job(users, "spread")["retries_used"] == 0


@pytest.mark.parametrize("runtime", ["torchrun", "horovod"])
def test_scripts_of_other_frameworks_run_over_both_nodes(trial: Installation, runtime: str) -> None:
    if runtime == "horovod" and not trial.has_module("horovod"):
        pytest.skip("the image of trainings has no Horovod")
    command = ["python", f"/training/{runtime}_digits.py", "--epochs", "20"]
    trial.submit(runtime, (2, WORKERS), command, runtime=runtime, template=WITH_CHECKPOINTS)
    trial.await_phase(runtime, "Running", workers=WORKERS)
    assert len(nodes_of(trial.await_workers(runtime, WORKERS))) == 2
    assert trial.await_phase(runtime, "Succeeded")["attempt"] == 1


def node_command(name: str, node: str) -> None:
    subprocess.run([*shlex.split(os.environ[name]), node], check=True, capture_output=True)
