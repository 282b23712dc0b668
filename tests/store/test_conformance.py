"""What the engine commits and users read, and what the database refuses, on SQLite and on PostgreSQL alike."""

from dataclasses import replace

import pytest

from scheduler.errors import InvalidInput, LeaseLost, StaleWrite, StoreError
from scheduler.model.event import Event, EventKind
from scheduler.model.hosts import HostList, Member
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Progress
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.node import Node, NodeIntent
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes
from scheduler.store import JobFilter, SqlStore
from tests.store.desk import NOW, SPEC, admitted, ended, finished, lead, live_worker, started, stored

NODE = Node(NodeName("a"), "10.0.0.1", 8, 16.0, 65536, labels=(("rack", "1"),), gpu_type="h200", has_gpus=True)


def test_after_a_commit_a_fresh_load_gives_what_was_committed(store: SqlStore) -> None:
    lease = lead(store)
    first, second = admitted(store, lead(store), SPEC, replace(SPEC, name="other", shape=WorkerShape(2, 0.1, 7)))
    first, second = started(first, 11), replace(second, reservation=((NodeName("a"), 2),), detail="é\n'")
    store.commit(Changes(jobs=(first, second), workers=first.workers, nodes=(NODE,)), lease, NOW)
    world = store.load_world()
    assert list(world.jobs) == stored(first, second)
    assert list(world.nodes) == store.list_nodes()
    assert world.nodes[0] == replace(NODE, version=1)
    assert store.get_job(first.id) == stored(first)[0]
    assert [w.ordinal for w in world.jobs[0].workers] == list(range(1, 12))


def test_rows_change_again_and_again(store: SqlStore) -> None:
    lease = lead(store)
    (job,) = stored(*admitted(store, lease))
    job, node = started(replace(job, version=0)), NODE
    for round_number in range(1, 4):
        job = replace(job, priority=round_number)
        node = replace(node, intent=NodeIntent.CORDONED if round_number % 2 else NodeIntent.ACTIVE)
        store.commit(Changes(jobs=(job,), workers=job.workers, nodes=(node,)), lease, NOW)
        job, node = replace(job, version=round_number), replace(node, version=round_number)
    assert (store.get_job(job.id), store.list_nodes()[0]) == (job, node)


def test_ended_workers_leave_their_job_and_stay_as_history(store: SqlStore) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0], 3)
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    gone = ended(job.workers[0])
    (job,) = stored(job)
    job = replace(job, workers=job.workers[1:])
    store.commit(Changes(jobs=(job,), workers=(gone,)), lease, NOW)
    assert list(store.load_world().jobs) == stored(job)
    assert store.list_workers(job.id) == [gone, *job.workers]
    assert store.list_workers(job.id, after=1, limit=1) == [job.workers[0]]


def test_workers_that_ended_of_late_are_found_as_far_as_the_newest_events_tell(store: SqlStore) -> None:
    lease = lead(store)
    assert store.ended_workers(NOW, 10) == (NOW, [])
    job = started(admitted(store, lease)[0], 3)
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    (job,) = stored(job)
    first, second = ended(job.workers[0]), ended(job.workers[1])
    told = [
        Event(NOW + at, EventKind.WORKER_ENDED, job.id, worker.id, NodeName("a"))
        for at, worker in ((5, first), (9, second))
    ]
    changes = Changes(jobs=(replace(job, workers=job.workers[2:]),), workers=(first, second), events=tuple(told))
    store.commit(changes, lease, NOW)
    assert store.ended_workers(NOW, 100) == (NOW, [first, second])
    assert store.ended_workers(NOW + 6, 100) == (NOW + 6, [second])
    assert store.ended_workers(NOW, 1) == (NOW + 9, [second])


def test_an_ended_job_leaves_the_world_and_can_still_be_read(store: SqlStore) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    done, workers = finished(stored(job)[0])
    store.commit(Changes(jobs=(done,), workers=workers), lease, NOW)
    world = store.load_world()
    assert (list(world.jobs), world.highest_job_id) == ([], job.id)
    assert store.get_job(job.id) == stored(done)[0]
    assert store.list_workers(job.id) == list(workers)
    assert store.get_job(JobId(99)) is None


def test_a_job_that_only_progressed_keeps_all_else_that_is_stored(store: SqlStore) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    (job,) = stored(job)
    further = replace(job, progress=Progress(step=7, fraction=0.5))
    store.commit(Changes(jobs=(replace(further, priority=7),), progressed=frozenset({job.id})), lease, NOW)
    assert store.get_job(job.id) == stored(further)[0]
    with pytest.raises(StaleWrite):
        store.commit(Changes(jobs=(further,), progressed=frozenset({job.id})), lease, NOW)


def test_a_stale_job_or_node_refuses_the_whole_commit(store: SqlStore) -> None:
    lease = lead(store)
    first, second = admitted(store, lease, SPEC, SPEC)
    store.commit(Changes(jobs=(first,), nodes=(NODE,)), lease, NOW)
    event = Event(NOW, EventKind.JOB_CHANGED, second.id)
    for changes in (
        Changes(jobs=(replace(second, priority=7), replace(first, priority=7)), events=(event,)),
        Changes(jobs=(replace(second, priority=7),), nodes=(NODE,), events=(event,)),
        Changes(jobs=(replace(second, priority=7),), nodes=(replace(NODE, version=2),), events=(event,)),
    ):
        with pytest.raises(StaleWrite):
            store.commit(changes, lease, NOW)
    assert list(store.load_world().jobs) == [*stored(first), second]
    assert event not in [stored_event for _, stored_event in store.list_events()]


def test_a_lost_lease_refuses_the_whole_commit(store: SqlStore) -> None:
    old = store.acquire_lease("old", NOW, 10)
    assert old is not None
    (job,) = admitted(store, old)
    new = store.acquire_lease("new", NOW + 11, 10, outlived=store.read_lease())
    assert new is not None
    with pytest.raises(LeaseLost, match="new leads in term 2"):
        store.commit(Changes(jobs=(replace(job, priority=7),)), old, NOW)
    assert store.get_job(job.id) == job
    store.commit(Changes(jobs=(replace(job, priority=8),)), new, NOW)


def test_published_hosts_replace_those_of_the_former_generation(store: SqlStore) -> None:
    lease = lead(store)
    job, other = (started(j) for j in admitted(store, lease, SPEC, SPEC))
    store.commit(Changes(jobs=(job, other), workers=(*job.workers, *other.workers)), lease, NOW)
    members = tuple(Member(w.id, rank, w.host, 1, None) for rank, w in enumerate(job.workers))
    lists = [HostList(job.id, 1, members), HostList(job.id, 2, members[:1]), HostList(job.id, 2, members)]
    assert store.published_hosts(job.id) is None
    for hosts in lists:
        store.commit(Changes(published=(hosts, replace(hosts, job_id=other.id))), lease, NOW)
        assert store.published_hosts(job.id) == hosts
        assert store.published_hosts(other.id) == replace(hosts, job_id=other.id)


def test_a_terminal_job_cannot_keep_a_live_worker(store: SqlStore) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    done, workers = finished(stored(job)[0])
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.commit(Changes(jobs=(done,), workers=workers[:1]), lease, NOW)
    assert store.get_job(job.id) == stored(job)[0]


def test_a_waiting_job_cannot_gain_a_live_worker(store: SqlStore) -> None:
    lease = lead(store)
    (job,) = admitted(store, lease)
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.commit(Changes(workers=(live_worker(job.id, 1),)), lease, NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_workers": 5},
        {"min_workers": 0},
        {"state": JobState.FAILED},
        {"finished_at": NOW},
        {"state": JobState.STOPPING},
        {"attempt": -1},
    ],
)
def test_a_job_that_contradicts_itself_is_refused(store: SqlStore, wrong: dict[str, object]) -> None:
    lease = lead(store)
    (job,) = admitted(store, lease)
    with pytest.raises(StoreError, match=r"(?i)check"):
        store.commit(Changes(jobs=(replace(job, **wrong),)), lease, NOW)  # type: ignore[arg-type]
    assert store.get_job(job.id) == job


@pytest.mark.parametrize("wrong", [{"ended_at": NOW}, {"rank": -1}])
def test_a_worker_that_contradicts_itself_is_refused(store: SqlStore, wrong: dict[str, object]) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0], 1)
    with pytest.raises(StoreError, match=r"(?i)check"):
        store.commit(Changes(jobs=(job,), workers=(live_worker(job.id, 1, **wrong),)), lease, NOW)


def test_a_stopping_job_keeps_why_and_for_whom(store: SqlStore) -> None:
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    job = replace(job, state=JobState.STOPPING, stop_reason=StopReason.PREEMPTED, stop_for=JobId(9))
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    assert list(store.load_world().jobs) == stored(job)


def test_jobs_are_listed_by_page_in_both_directions(store: SqlStore) -> None:
    store.submit([SPEC] * 7, NOW)
    assert [j.id for j in store.list_jobs(limit=3)] == [1, 2, 3]
    assert [j.id for j in store.list_jobs(after=3, limit=3)] == [4, 5, 6]
    assert [j.id for j in store.list_jobs(after=6)] == [7]
    assert [j.id for j in store.list_jobs(limit=2, descending=True)] == [7, 6]
    assert [j.id for j in store.list_jobs(after=3, descending=True)] == [2, 1]


def test_jobs_are_listed_by_state_name_user_and_labels(store: SqlStore) -> None:
    lease = lead(store)
    labels = (("team", "a"), ("x", 'quo"te,["y","z"]'))
    first, second, third = admitted(
        store,
        lease,
        replace(SPEC, labels=labels),
        replace(SPEC, name="b", user="eve"),
        replace(SPEC, labels=labels[:1]),
    )
    first = started(first)
    store.commit(Changes(jobs=(first,), workers=first.workers), lease, NOW)

    def found(**wanted: object) -> list[int]:
        return [job.id for job in store.list_jobs(JobFilter(**wanted))]  # type: ignore[arg-type]

    assert found(states=(JobState.STARTING,)) == [first.id]
    assert found(states=(JobState.STARTING, JobState.QUEUED)) == [first.id, second.id, third.id]
    assert (found(name="b"), found(user="eve"), found(name="none")) == ([second.id], [second.id], [])
    assert found(labels=labels[:1]) == [first.id, third.id]
    assert found(labels=labels) == [first.id]
    assert found(labels=(("TEAM", "a"),)) == found(labels=(("y", "z"),)) == found(labels=(("team", "%"),)) == []
    assert store.list_jobs(JobFilter(states=(JobState.STARTING,))) == stored(first)
    assert store.count_jobs() == {state: {"STARTING": 1, "QUEUED": 2}.get(state, 0) for state in JobState}


def test_events_are_listed_by_page_and_by_job(store: SqlStore) -> None:
    lease = lead(store)
    events = tuple(
        Event(
            NOW + n, EventKind.JOB_SHRANK, JobId(1 + n % 2), WorkerId("1-1"), NodeName("a"), "PREEMPTED", JobId(2), "x"
        )
        for n in range(6)
    )
    store.commit(Changes(events=events), lease, NOW)
    assert [event for _, event in store.list_events()] == list(events)
    ids = [event_id for event_id, _ in store.list_events()]
    assert ids == sorted(ids)
    assert store.list_events(after=ids[3]) == list(zip(ids[4:], events[4:], strict=True))
    assert store.list_events(job_id=JobId(2), limit=2) == [(ids[1], events[1]), (ids[3], events[3])]
    assert store.list_events(limit=1, descending=True) == [(ids[5], events[5])]


def test_purging_removes_only_what_ended_long_ago(store: SqlStore) -> None:
    lease = lead(store)
    old, young, running = (started(job) for job in admitted(store, lease, SPEC, SPEC, SPEC))
    jobs = (old, young, running)
    hosts = HostList(old.id, 1, (Member(old.workers[0].id, 0, "h", 1, None),))
    store.commit(Changes(jobs=jobs, workers=tuple(w for j in jobs for w in j.workers), published=(hosts,)), lease, NOW)
    for job, at in ((old, 10.0), (young, 1000.0)):
        done, workers = finished(stored(job)[0])
        store.commit(Changes(jobs=(replace(done, finished_at=at),), workers=workers), lease, NOW)
    purged = store.purge(before_jobs=500.0, before_events=0.0)
    assert (purged.jobs, purged.events) == (1, 0)
    assert [job.id for job in store.list_jobs()] == [young.id, running.id]
    assert (store.list_workers(old.id), store.published_hosts(old.id)) == ([], None)
    assert store.load_world().highest_job_id == running.id
    assert len(store.list_events(job_id=old.id)) == 1


def test_purging_is_bounded_and_removes_the_oldest_events(store: SqlStore) -> None:
    lease = lead(store)
    for at in range(6):
        store.commit(Changes(events=(Event(float(at), EventKind.NODE_UP, node=NodeName("a")),)), lease, NOW)
    assert store.purge(0.0, 4.0, limit=3).events == 3
    assert store.purge(0.0, 4.0, limit=3).events == 1
    assert store.purge(0.0, 4.0, limit=3).events == 0
    assert [event.at for _, event in store.list_events()] == [4.0, 5.0]


def test_ids_are_not_used_again_after_a_purge(store: SqlStore) -> None:
    lease = lead(store)
    (job,) = admitted(store, lease)
    store.commit(Changes(jobs=(replace(job, state=JobState.CANCELLED, finished_at=1.0),)), lease, NOW)
    assert store.purge(2.0, NOW * 2).jobs == 1
    assert store.submit([SPEC], NOW)[0].id == job.id + 1


def test_a_secret_stays_the_same_and_differs_by_name(store: SqlStore) -> None:
    first = store.secret("workers")
    assert len(first) == 32
    assert store.secret("workers") == first
    assert store.secret("other") != first


def test_a_number_that_no_database_holds_is_the_callers_mistake(store: SqlStore) -> None:
    with pytest.raises(InvalidInput, match="rejected a value"):
        store.submit([replace(SPEC, priority=2**63)], NOW)
    with pytest.raises(InvalidInput, match="rejected a value"):
        store.submit([replace(SPEC, name="\ud800")], NOW)
    assert store.list_jobs() == []


def test_an_id_beyond_all_ids_is_the_callers_mistake(store: SqlStore) -> None:
    for read in (
        lambda: store.get_job(JobId(2**63)),
        lambda: store.list_jobs(after=2**70),
        lambda: store.list_events(job_id=JobId(2**63)),
        lambda: store.add_intent(IntentKind.CANCEL, NOW, job_id=JobId(2**63)),
    ):
        with pytest.raises(InvalidInput, match="rejected a value"):
            read()
