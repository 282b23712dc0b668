"""Queues whose budget is spent: their jobs get no more, keep what they have, and claim nothing from others."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.job_state import WaitReason
from tests.policy.worlds import Cluster


def running(c: Cluster) -> dict[int, int]:
    return {int(job_id): len(job.wanted_workers) for job_id, job in c.jobs.items() if job.workers}


def spent(c: Cluster, *paths: str) -> Cluster:
    c.spent = frozenset(paths)
    return c


def test_jobs_of_a_spent_queue_neither_start_nor_grow_and_keep_what_they_have() -> None:
    c = spent(Cluster().node("a", 8).queue("left").queue("right"), "left")
    c.running(1, on={"a": 2}, workers=(1, 8), queue="left").waiting(2, queue="left").waiting(3, queue="right")
    c.settle()
    assert running(c) == {1: 2, 3: 1}
    assert c.reason(2) is WaitReason.BUDGET_SPENT
    c.spent = frozenset()
    c.settle()
    assert running(c) == {1: 6, 2: 1, 3: 1}


def test_a_spent_queue_takes_nothing_from_borrowers_not_even_to_its_guarantee() -> None:
    c = spent(Cluster().node("a", 8).queue("left", guarantee=8).queue("right"), "left")
    c.running(1, on={"a": 4}, workers=(1, 8), queue="right").waiting(2, workers=4, queue="left")
    c.settle()
    assert running(c) == {1: 8}
    assert c.reason(2) is WaitReason.BUDGET_SPENT


def test_inside_a_spent_queue_priority_takes_nothing() -> None:
    c = spent(Cluster().node("a", 4).queue("left"), "left")
    c.running(1, on={"a": 4}, workers=4, queue="left").waiting(2, workers=4, queue="left", priority=9)
    assert c.plan().actions == ()


def test_nothing_is_taken_from_a_queue_whose_row_cannot_be_read() -> None:
    c = Cluster().node("a", 8).queue("left", readable=False).queue("right", guarantee=8)
    c.running(1, on={"a": 6}, workers=(1, 8), queue="left").waiting(2, workers=(1, 8), queue="right")
    c.waiting(3, queue="left", priority=9)
    c.settle()
    assert running(c) == {1: 6, 2: 2}
    assert c.reason(3) is WaitReason.QUEUE_UNREADABLE


@given(st.data())
def test_in_drawn_worlds_no_job_of_a_spent_queue_gets_anything(data: st.DataObject) -> None:
    c = Cluster().node("a", data.draw(st.integers(2, 8))).node("b", data.draw(st.integers(1, 4)))
    for path in ("lab", "lab/one", "lab/two", "works"):
        guarantee = data.draw(st.integers(0, 6))
        c.queue(path, guarantee=guarantee or None)
    over = data.draw(st.sampled_from(("lab", "lab/one", "works")))
    spent(c, *(path for path in ("lab", "lab/one", "lab/two", "works") if path == over or path.startswith(f"{over}/")))
    paths = st.sampled_from(("lab", "lab/one", "lab/two", "works"))
    if data.draw(st.booleans()):
        c.running(1, on={"a": 2}, workers=(1, 4), queue=data.draw(paths))
    for number in range(2, data.draw(st.integers(3, 8))):
        low = data.draw(st.integers(1, 3))
        high = low + data.draw(st.integers(0, 4))
        c.waiting(number, workers=(low, high), queue=data.draw(paths), priority=data.draw(st.integers(0, 2)))
    before = running(c)
    for _ in range(4):
        c.step()
    for number, workers in running(c).items():
        if c.jobs[number].spec.queue in c.spent:  # type: ignore[index]
            assert workers <= before.get(number, 0)
