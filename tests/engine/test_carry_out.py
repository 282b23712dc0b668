"""An action that the cluster stumbles over is a failure of its own: the job is told, and all others go on."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engine.apply.carry_out import carry_out
from scheduler.engine.ports import ForgetWorker, StopWorker
from scheduler.model.ids import WorkerId
from scheduler.model.job_state import JobState
from tests.clusters.desk import Desk, LocalDesk, Manner, SimulatedDesk
from tests.world import World


def test_a_job_over_which_the_cluster_stumbles_fails_with_the_reason_and_delays_nobody(w: World) -> None:
    w.node("a", slots=4)
    poisoned = w.job("poisoned", workers=(1, 1), max_retries=1)
    w.cluster.stumbles_over.add(poisoned)
    others = [w.job(f"good-{number}", workers=(1, 1)) for number in range(3)]
    report = w.tick()
    assert report.error is None
    assert [failure.final for failure in report.action_failures] == [True]
    w.settle()
    for job_id in others:
        assert w.expect(job_id, JobState.RUNNING, workers=1).attempt == 1
    failed = w.expect(poisoned, JobState.FAILED, workers=0)
    assert "LAUNCH_FAILED" in failed.detail
    assert f"LookupError: nobody expected job {poisoned} (cluster.py:" in failed.detail
    assert not w.get(poisoned).all_workers


@pytest.mark.parametrize("kind", ["simulated", "local"])
def test_every_cluster_does_what_stands_beside_an_action_that_it_stumbles_over(kind: str, tmp_path: Path) -> None:
    desk: Desk = SimulatedDesk() if kind == "simulated" else LocalDesk(tmp_path)
    try:
        good = [desk.action(f"{number}-1", Manner.POLITE) for number in (7, 9)]
        poison = replace(desk.action("8-1", Manner.POLITE), worker_id=WorkerId("8-1"), node=["a"], env=((1, {1}),))  # type: ignore[arg-type]
        poison = poison if kind == "simulated" else replace(poison, node=desk.node)
        unknown = [StopWorker(WorkerId("5-1"), desk.node, 0.0), ForgetWorker(WorkerId("5-1"), desk.node)]
        (failure,) = carry_out(desk.cluster, [*unknown, good[0], poison, good[1]], math.inf)
        assert failure.action is poison
        assert failure.final
        assert "TypeError" in failure.error
        for start in good:
            assert desk.running(start.worker_id).alive
        assert WorkerId("8-1") not in desk.workers()
    finally:
        desk.close()


def test_a_program_that_the_supervisor_stumbles_over_is_not_launched_and_the_others_are(tmp_path: Path) -> None:
    desk = LocalDesk(tmp_path)
    try:
        empty = replace(desk.action("8-1", 0), command=())
        assert not desk.apply(empty, desk.action("9-1", Manner.POLITE))
        assert desk.running("9-1").alive
        assert "IndexError" in desk.ended("8-1").detail
        assert desk.running("9-1").alive
    finally:
        desk.close()
