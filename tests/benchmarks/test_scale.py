"""The benchmark of the whole engine, at a tiny size."""

from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.scale import Cluster
from scheduler.model.job_state import JobState

NODES, SECONDS = 20, 5


def test_all_that_happens_to_the_cluster_is_measured() -> None:
    figures = {figure.what: figure.value for figure in scale.run(str(NODES), seconds=SECONDS)}
    happenings = {
        "all jobs at once",
        "a wave of 4 important jobs until they run",
        "1 nodes with 8 workers lost",
        "a restart of the daemon",
        "a failover",
    }
    for happening in happenings:
        for what in ("ticks", "all of them", "the longest"):
            assert _positive(figures.pop(f"20 nodes: {happening}: {what}"))
    assert sorted(figures) == [
        "20 nodes: a tick in steady traffic, p50",
        "20 nodes: a tick in steady traffic, p99",
        "20 nodes: a tick in steady traffic, worst",
        "20 nodes: memory at most, with the simulated cluster and the standby",
        "20 nodes: silence of the leader until another led",
        "20 nodes: what the daemon keeps in memory after it, beside its program",
    ]
    assert all(map(_positive, figures.values()))


def test_sizes_are_measured_one_after_the_other() -> None:
    figures = scale.run("4,5", seconds=1)
    assert [figure.what.partition(":")[0] for figure in figures] == ["4 nodes"] * 21 + ["5 nodes"] * 21


@pytest.mark.parametrize("nodes", [NODES, NODES + 1])
def test_what_was_lost_or_preempted_runs_or_waits_at_the_end(tmp_path: Path, nodes: int) -> None:
    cluster = Cluster(tmp_path, nodes, None)
    cluster.measure(SECONDS)
    world = cluster.site.leader.world
    jobs = [*world.active.values(), *world.queued.values()]
    assert len(jobs) > NODES * scale.JOBS_PER_NODE // 2
    assert {job.state for job in jobs} <= {JobState.RUNNING, JobState.QUEUED}
    cluster.site.leader.store.close()


def _positive(value: float | None) -> bool:
    return value is not None and value > 0
