"""What workers are told at their launch."""

from scheduler.model.job import JobState
from tests.world import World


def test_a_worker_sees_its_own_gpus_only_and_is_alone_on_its_machine_to_torch(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2)
    w.settle()
    seen = []
    for worker in w.expect(job_id, JobState.RUNNING, workers=2).workers:
        process = w.cluster.process(worker.id)
        assert process is not None
        env = dict(process.start.env)
        seen.append((env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"], env["MASTER_ADDR"]))
    assert seen == [("0", "2", "0", "1", "host-a"), ("1", "2", "0", "1", "host-a")]
