"""What every cluster promises the engine: local processes, pods of a real Kubernetes cluster, and the simulated one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engine.ports import TOO_LATE, ForgetWorker, StopWorker
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import Phase
from tests.clusters.desk import GRACE_SECONDS, Desk, LocalDesk, Manner, SimulatedDesk
from tests.clusters.kubernetes_desk import KubernetesDesk


@pytest.fixture(params=["simulated", "local", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    desk: Desk
    match request.param:
        case "simulated":
            desk = SimulatedDesk()
        case "local":
            desk = LocalDesk(tmp_path)
        case _:
            desk = KubernetesDesk(request.getfixturevalue("kubernetes"), tmp_path)
    yield desk
    desk.close()


def test_a_started_worker_is_listed_at_once_with_what_it_holds(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE, slot_ids=(1, 3))
    assert desk.workers()[WorkerId("7-1")].alive
    seen = desk.running("7-1")
    assert (seen.job_id, seen.node, seen.slot_ids) == (JobId(7), desk.node, (1, 3))
    assert (seen.cpus, seen.memory_mib, seen.shared) == (0.01, 32, False)
    assert (seen.exit_code, seen.ended_at, seen.cause) == (None, None, None)


@pytest.mark.parametrize("code", [0, 7, 64])
def test_an_end_is_told_with_its_exit_code_until_it_is_forgotten(desk: Desk, code: int) -> None:
    desk.start("7-1", code)
    seen = desk.ended("7-1")
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.EXITED, code, None)
    assert desk.workers()[WorkerId("7-1")] == seen
    assert not desk.forget("7-1")
    assert WorkerId("7-1") not in desk.workers()
    assert not desk.forget("7-1")


def test_a_repeated_start_starts_nothing(desk: Desk) -> None:
    first = desk.action("7-1", 5)
    assert not desk.apply(first, first)
    ended = desk.ended("7-1")
    assert not desk.apply(first)
    desk.start("8-1", 0)
    desk.ended("8-1")
    assert desk.workers()[WorkerId("7-1")] == ended


def test_a_live_worker_is_not_forgotten(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE)
    desk.running("7-1")
    desk.forget("7-1")
    assert desk.workers()[WorkerId("7-1")].alive


def test_who_is_asked_to_leave_ends_by_itself_within_its_grace(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE)
    desk.running("7-1")
    asked_at = desk.now()
    desk.stop("7-1", GRACE_SECONDS)
    assert desk.ended("7-1").exit_code == 64
    assert desk.now() < asked_at + GRACE_SECONDS


def test_who_does_not_go_is_killed_after_its_grace(desk: Desk) -> None:
    desk.start("7-1", Manner.STUBBORN)
    desk.running("7-1")
    asked_at = desk.now()
    desk.stop("7-1", 5.0)
    assert desk.workers()[WorkerId("7-1")].alive
    assert desk.ended("7-1").exit_code == 137
    assert asked_at + 4.5 < desk.now() < asked_at + GRACE_SECONDS


def test_without_grace_it_is_killed_now_and_listed_until_it_is_gone(desk: Desk) -> None:
    desk.start("7-1", Manner.STUBBORN)
    desk.running("7-1")
    asked_at = desk.now()
    desk.stop("7-1", 0.0)
    assert desk.ended("7-1").exit_code == 137
    assert desk.now() < asked_at + GRACE_SECONDS


def test_a_longer_grace_than_before_changes_nothing(desk: Desk) -> None:
    desk.start("7-1", Manner.STUBBORN)
    desk.running("7-1")
    asked_at = desk.now()
    desk.stop("7-1", 2.0)
    desk.stop("7-1", GRACE_SECONDS)
    desk.ended("7-1")
    assert desk.now() < asked_at + GRACE_SECONDS


def test_a_shorter_grace_than_before_takes_effect(desk: Desk) -> None:
    desk.start("7-1", Manner.STUBBORN)
    desk.running("7-1")
    asked_at = desk.now()
    desk.stop("7-1", GRACE_SECONDS)
    desk.stop("7-1", 0.0)
    assert desk.ended("7-1").exit_code == 137
    assert desk.now() < asked_at + GRACE_SECONDS


def test_stopping_what_does_not_exist_or_has_ended_is_harmless(desk: Desk) -> None:
    desk.stop("7-1", 1.0)
    assert not desk.workers()
    desk.start("8-1", 3)
    ended = desk.ended("8-1")
    desk.stop("8-1", 0.0)
    assert desk.workers()[WorkerId("8-1")] == ended


def test_a_worker_that_cannot_be_launched_says_so(desk: Desk) -> None:
    assert not desk.apply(desk.broken("7-1"))
    seen = desk.ended("7-1")
    assert (seen.phase, seen.exit_code) == (Phase.LAUNCH_FAILED, None)
    assert not desk.forget("7-1")
    assert not desk.workers()


def test_nothing_is_begun_after_the_time_is_over(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE)
    running = desk.running("7-1")
    actions = [
        StopWorker(WorkerId("7-1"), desk.node, 0.0),
        ForgetWorker(WorkerId("7-1"), desk.node),
        desk.action("8-1", 0),
    ]
    failures = desk.cluster.apply(actions, desk.now() - 0.001)
    assert [(failure.action, failure.error) for failure in failures] == [(action, TOO_LATE) for action in actions]
    assert desk.workers() == {WorkerId("7-1"): running}


def test_a_start_on_a_node_that_is_not_there_fails_and_names_it(desk: Desk) -> None:
    stop = desk.action("7-1", 0)
    (failure,) = desk.apply(type(stop)(**{**_fields(stop), "node": NodeName("elsewhere")}))
    assert "elsewhere" in failure.error
    assert not desk.workers()


def test_another_daemon_sees_the_same_workers_and_may_end_them(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE, slot_ids=(2,))
    desk.start("8-1", 9, slot_ids=(1,))
    running, ended = desk.running("7-1"), desk.ended("8-1")
    desk.take_over()
    assert desk.workers() == {WorkerId("7-1"): running, WorkerId("8-1"): ended}
    assert not desk.apply(desk.action("7-1", Manner.POLITE, slot_ids=(2,)))
    desk.stop("7-1", 20.0)
    assert desk.ended("7-1").exit_code == 64


def test_the_nonce_of_its_job_is_told_with_a_worker_to_any_daemon(desk: Desk) -> None:
    start = replace(desk.action("7-1", Manner.POLITE), nonce="0123456789")
    assert not desk.apply(start)
    assert desk.workers()[WorkerId("7-1")].nonce == "0123456789"
    assert desk.running("7-1").nonce == "0123456789"
    desk.take_over()
    seen = desk.running("7-1")
    assert (seen.job_id, seen.nonce) == (JobId(7), "0123456789")
    assert not desk.apply(StopWorker(WorkerId("7-1"), desk.node, 20.0, "0123456789"))
    assert desk.ended("7-1").nonce == "0123456789"


def test_the_same_object_is_observed_as_long_as_nothing_changed(desk: Desk) -> None:
    desk.start("7-1", Manner.POLITE)
    desk.running("7-1")
    first, second = desk.cluster.observe(), desk.cluster.observe()
    assert all(second.nodes[name] == node for name, node in first.nodes.items())
    assert second.workers[WorkerId("7-1")] is first.workers[WorkerId("7-1")]


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}  # type: ignore[attr-defined]
