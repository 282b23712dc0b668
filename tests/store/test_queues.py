"""Queues in the store: created, changed and deleted with an event, and checked where jobs come in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import bounds
from scheduler.errors import Conflict, InvalidInput, LimitReached, NotFound, UnreadableRow
from scheduler.http.schemas.queue_requests import QueueChangeRequest
from scheduler.http.schemas.requests import check_request
from scheduler.model.event import EventKind
from scheduler.model.identity import Role, UserToken
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.queue import ANY_GPU, Queue, ancestry
from scheduler.model.world import Changes
from scheduler.store import JobFilter, SqlStore
from tests.databases import migrated_sqlite
from tests.store import garbage
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, admitted, lead

TOKEN = UserToken(0, "ann", Role.USER, "", "a", NOW, "root")
FULL = Queue(
    "lab",
    NOW,
    guarantee=((ANY_GPU, 4), ("H100", 2)),
    limit=((ANY_GPU, 16),),
    weight=2.5,
    share_users=True,
    user_limit=3,
    priority_max=-5,
    max_jobs=7,
    budget=5000,
    members=("@lab", "ann"),
)


def put(store: SqlStore, path: str, **fields: object) -> Queue:
    return store.set_queue(path, lambda _: Queue(path, NOW, **fields), NOW)  # type: ignore[arg-type]


def told(store: SqlStore) -> list[tuple[EventKind, str]]:
    """Events of queues."""
    of_queues = (EventKind.QUEUE_SET, EventKind.QUEUE_DELETED)
    return [(event.kind, event.detail) for _, event in store.list_events() if event.kind in of_queues]


def ended(store: SqlStore, *specs: JobSpec) -> None:
    """These jobs came and went."""
    lease = lead(store)
    jobs = admitted(store, lease, *specs)
    over = (replace(job, state=JobState.CANCELLED, finished_at=NOW, stop_reason=StopReason.CANCELLED) for job in jobs)
    store.commit(Changes(jobs=tuple(over)), lease, NOW)


def test_every_field_comes_back_to_users_and_to_engines(store: SqlStore) -> None:
    store.set_queue("lab", lambda _: FULL, NOW)
    assert store.get_queue("lab") == FULL
    assert store.list_queues() == store.load_world().queues == store.load_news(0).queues == (FULL,)


def test_the_next_tick_is_asked_to_read_all_queues(store: SqlStore) -> None:
    assert store.take_inbox(10).queues is None
    put(store, "lab")
    inbox = store.take_inbox(10)
    assert [(intent.kind, intent.queue) for intent in inbox.intents] == [(IntentKind.QUEUE, "lab")]
    assert inbox.queues == store.list_queues()


def test_an_event_says_what_changed(store: SqlStore) -> None:
    put(store, "lab", weight=2.0, members=("ann",))
    put(store, "lab", limit=((ANY_GPU, 16), ("H100", 4)), members=("bob",))
    put(store, "lab", limit=((ANY_GPU, 16), ("H100", 4)), members=("bob",))
    store.delete_queue("lab", NOW, NOW)
    assert told(store) == [
        (EventKind.QUEUE_SET, "lab: created, weight 2, members 1 (with ann)"),
        (EventKind.QUEUE_SET, "lab: limit none -> 16 H100=4, weight 2 -> 1, members 1 (with bob, without ann)"),
        (EventKind.QUEUE_DELETED, "lab"),
    ]


def test_a_queue_stands_inside_one_that_exists(store: SqlStore) -> None:
    with pytest.raises(InvalidInput, match="path: queue 'lab' does not exist: there are no queues; create the outer"):
        put(store, "lab/vision")
    put(store, "lab")
    assert put(store, "lab/vision").parent == "lab"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """One store for all examples."""
    store = SqlStore(migrated_sqlite(tmp_path_factory.mktemp("queues") / "sched.db"), durable=False)
    yield store
    store.close()


@pytest.mark.parametrize("path", ["", "/lab", "lab/", "lab//a", "Lab", ".lab", "a b", "l" * 64, "/".join("abcdefghi")])
def test_a_path_that_no_queue_may_have_is_refused(store: SqlStore, path: str) -> None:
    with pytest.raises(InvalidInput, match=r"path: (each name must be 1 to 63 of|must have at most 8 levels, not 9)"):
        put(store, path)


def test_a_queue_is_deleted_once_nothing_is_inside(store: SqlStore) -> None:
    put(store, "lab")
    put(store, "lab/vision")
    put(store, "lab_2")
    with pytest.raises(Conflict, match="queue lab contains lab/vision: delete what is inside first"):
        store.delete_queue("lab", NOW, NOW)
    ended(store, replace(SPEC, queue="lab/vision"))
    store.submit([replace(SPEC, queue="lab/vision")], NOW)
    with pytest.raises(Conflict, match="queue lab/vision contains 1 job that has not ended"):
        store.delete_queue("lab/vision", NOW, NOW)
    store.delete_queue("lab_2", NOW, NOW)
    with pytest.raises(NotFound, match="queue 'lab_2' does not exist: there is lab"):
        store.delete_queue("lab_2", NOW, NOW)


def test_a_queue_stays_while_recurring_jobs_or_valid_tokens_name_it(store: SqlStore) -> None:
    put(store, "lab")
    put(store, "lab/vision")
    store.add_recurring("0 3 * * *", "UTC", replace(SPEC, queue="lab/vision"), NOW)
    with pytest.raises(
        Conflict, match=r"^queue lab/vision is named by the recurring job r1: cancel what names it first$"
    ):
        store.delete_queue("lab/vision", NOW, NOW)
    ann = store.add_token(replace(TOKEN, queue="lab/vision", expires_at=NOW + 60))
    bob = store.add_token(replace(TOKEN, user="bob", digest="b", queue="lab/vision"))
    store.add_token(replace(TOKEN, user="bob", digest="page", queue="lab/vision", made_from=bob))
    store.add_recurring("0 4 * * *", "UTC", replace(SPEC, queue="lab/vision"), NOW)
    said = (
        rf"the recurring jobs r1, r2 and the tokens {ann} \(ann\), {bob} \(bob\): cancel and revoke what names it first"
    )
    with pytest.raises(Conflict, match=said):
        store.delete_queue("lab/vision", NOW, NOW)
    store.delete_recurring(1, NOW)
    store.delete_recurring(2, NOW)
    store.revoke_token(bob, NOW)
    with pytest.raises(Conflict, match=rf"is named by the token {ann} \(ann\): revoke what names it first"):
        store.delete_queue("lab/vision", NOW, NOW)
    store.delete_queue("lab/vision", NOW, NOW + 60)
    store.delete_queue("lab", NOW, NOW + 60)


def test_nothing_that_names_a_queue_is_stored_without_it(store: SqlStore) -> None:
    with pytest.raises(InvalidInput, match="queue: queue 'lab' does not exist"):
        store.add_recurring("0 3 * * *", "UTC", replace(SPEC, queue="lab"), NOW)
    with pytest.raises(InvalidInput, match="queue: queue 'lab' does not exist"):
        store.add_token(replace(TOKEN, queue="lab"))
    assert (store.list_recurring(), store.list_tokens().tokens) == ([], ())


def test_a_token_is_not_stored_beside_the_deletion_of_its_queue(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(2)]
    put(stores[0], "lab")
    both = Barrier(2)

    def name() -> bool:
        both.wait()
        with suppress(InvalidInput):
            return bool(stores[0].add_token(replace(TOKEN, queue="lab")))
        return False

    def delete() -> bool:
        both.wait()
        with suppress(Conflict):
            stores[1].delete_queue("lab", NOW, NOW)
            return True
        return False

    with ThreadPoolExecutor(2) as pool:
        assert sorted(done.result() for done in (pool.submit(name), pool.submit(delete))) == [False, True]


def test_a_job_needs_a_queue_that_exists(store: SqlStore) -> None:
    put(store, "lab")
    put(store, "lab/vision")
    with pytest.raises(InvalidInput, match="queue: queue 'lab/visoin' does not exist: in lab there is lab/vision"):
        store.submit([SPEC, replace(SPEC, queue="lab/visoin")], NOW)
    assert store.list_jobs() == []
    [job] = store.submit([replace(SPEC, queue="lab/vision")], NOW)
    stored = store.get_job(job.id)
    assert stored is not None
    assert stored.spec.queue == "lab/vision"


def test_a_queue_takes_so_many_jobs_as_long_as_they_have_not_ended(store: SqlStore) -> None:
    put(store, "lab", max_jobs=2)
    put(store, "lab/vision")
    vision = replace(SPEC, queue="lab/vision")
    with pytest.raises(LimitReached, match="of at most 2, and 3 more were submitted where 2 would fit: wait"):
        store.submit([vision] * 3, NOW)
    ended(store, vision, vision)
    store.submit([vision, replace(SPEC, queue="lab")], NOW)
    with pytest.raises(LimitReached, match="queue: lab contains 2 jobs that have not ended, of at most 2: wait until"):
        store.submit([vision], NOW)
    assert len(store.submit([SPEC], NOW)) == 1


def test_a_queue_whose_outer_one_was_deleted_by_hand_takes_jobs(store: SqlStore, database_url: str) -> None:
    put(store, "lab", max_jobs=1)
    put(store, "lab/vision", max_jobs=2)
    with garbage.connected(database_url) as session:
        session.execute("DELETE FROM queues WHERE path = 'lab'")
    inside = replace(SPEC, queue="lab/vision")
    store.submit([inside, inside], NOW)
    with pytest.raises(LimitReached, match="lab/vision contains 2 jobs"):
        store.submit([inside], NOW)


def test_the_jobs_of_a_queue_are_listed_with_those_of_queues_inside_it(store: SqlStore) -> None:
    for path in ("lab", "lab/vision", "lab/vision/old", "lab_2", "labs"):
        put(store, path)
    over = replace(SPEC, queue="lab/vision/old")
    ended(store, over)
    store.delete_queue("lab/vision/old", NOW, NOW)
    store.submit([SPEC, *(replace(SPEC, queue=path) for path in ("lab", "lab/vision", "lab_2", "labs"))], NOW)

    def found(queue: str, *states: JobState) -> list[str]:
        return [job.spec.queue for job in store.list_jobs(JobFilter(states=states, queue=queue))]

    assert found("lab") == ["lab/vision/old", "lab", "lab/vision"]
    assert found("lab", JobState.QUEUED, JobState.RUNNING) == ["lab", "lab/vision"]
    assert found("lab", JobState.QUEUED, JobState.CANCELLED) == ["lab/vision/old", "lab", "lab/vision"]
    assert found("lab/vision") == ["lab/vision/old", "lab/vision"]
    assert (found("lab_2"), found("la"), found("lab/v")) == (["lab_2"], [], [])


def test_two_submissions_do_not_both_get_the_last_place(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(2)]
    put(stores[0], "lab", max_jobs=1)
    both = Barrier(2)

    def submit(store: SqlStore) -> bool:
        both.wait()
        try:
            store.submit([replace(SPEC, queue="lab")], NOW)
        except LimitReached:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(submit, stores)) == [False, True]


def test_of_changes_of_members_at_once_none_is_lost(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(3)]
    put(stores[0], "lab", members=tuple(f"old-{number}" for number in range(3)))
    all_at_once = Barrier(len(stores))

    def change(number: int) -> None:
        all_at_once.wait()
        for turn in range(8):
            gone = {"remove_members": [f"new-{number}-{turn - 1}"]} if turn % 2 else {}
            wanted = check_request(QueueChangeRequest, {"add_members": [f"new-{number}-{turn}"], **gone})
            stores[number].set_queue("lab", lambda queue, wanted=wanted: wanted.changed(queue), NOW)

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(change, range(len(stores))))
    lab = stores[0].get_queue("lab")
    assert lab is not None
    kept = {f"new-{number}-{turn}" for number in range(3) for turn in (1, 3, 5, 7)}
    assert set(lab.members) == kept | {f"old-{number}" for number in range(3)}


def test_a_row_that_cannot_be_read_is_set_aside_and_can_be_replaced(store: SqlStore, database_url: str) -> None:
    put(store, "lab")
    put(store, "lab/vision")
    with garbage.connected(database_url) as session:
        session.execute("UPDATE queues SET guarantee = '[[' WHERE path = 'lab/vision'")
    assert [(queue.path, queue.readable) for queue in store.list_queues()] == [("lab", True), ("lab/vision", False)]
    [row] = store.unreadable
    assert str(row).startswith("queues lab/vision: guarantee: not valid JSON")
    assert [queue.readable for queue in store.load_world().queues] == [True, False]
    with pytest.raises(UnreadableRow, match="the row of queue lab/vision cannot be read: set all of it anew with"):
        store.submit([replace(SPEC, queue="lab/vision")], NOW)
    store.submit([replace(SPEC, queue="lab")], NOW)
    with pytest.raises(UnreadableRow, match="set all of it anew with sched queue create lab/vision"):
        put(store, "lab/vision")
    store.set_queue("lab/vision", lambda _: Queue("lab/vision", NOW, weight=3.0), NOW, anew=True)
    assert [queue.weight for queue in store.list_queues()] == [1.0, 3.0]


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)
slots_by_type = st.dictionaries(texts, st.integers(0, 10_000_000), max_size=3).map(lambda s: tuple(sorted(s.items())))
queues = st.builds(
    Queue,
    path=st.sampled_from(["team", "team/a_b.c-d"]),
    created_at=st.floats(0, 1e11).map(bounds.MOMENT.nearest),
    guarantee=st.just(()) | slots_by_type.map(lambda slots: tuple((kind, 0) for kind, _ in slots)),
    limit=slots_by_type,
    weight=st.floats(bounds.WEIGHT.low, bounds.WEIGHT.high),
    share_users=st.booleans(),
    user_limit=st.none() | st.integers(0, 10_000_000),
    priority_max=st.none() | st.integers(-1_000_000, 1_000_000),
    max_jobs=st.none() | st.integers(0, 10_000_000),
    members=st.lists(texts, max_size=3, unique=True).map(tuple),
)


@settings(max_examples=60)
@given(queue=queues)
def test_queues_come_back_equal(shared: SqlStore, queue: Queue) -> None:
    for path in ancestry(queue.path):
        shared.set_queue(path, lambda _, path=path: replace(queue, path=path), 0.0)  # type: ignore[misc]
    assert shared.get_queue(queue.path) == queue
    assert queue in shared.list_queues()
    assert queue in shared.load_world().queues
