"""Queues in the world that decisions look at: as users have set them, over restarts and at those that follow."""

import pytest

from scheduler.config import PolicySettings
from scheduler.engine.replay_case import Case, load_case, save_case
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.queue import Queue
from tests.store import garbage
from tests.world import World


def put(world: World, path: str, **fields: object) -> Queue:
    now = world.clock.now()
    return world.store.set_queue(path, lambda _: Queue(path, now, **fields), now)  # type: ignore[arg-type]


def present(world: World) -> list[str]:
    """Paths of the queues that decisions look at."""
    assert world.engine.world is not None
    return sorted(world.engine.world.queues)


def test_the_next_tick_knows_what_users_have_set(w: World) -> None:
    w.node("a", slots=2)
    w.tick()
    assert present(w) == []
    lab = put(w, "lab", weight=2.0)
    w.tick()
    assert w.engine.world is not None
    assert w.engine.world.queues == {"lab": lab}
    changed = put(w, "lab", weight=3.0)
    w.job("j", queue="lab")
    w.advance(5)
    assert w.engine.world.queues == {"lab": changed}
    assert w.board.world is not None
    assert w.board.world.queues == {"lab": changed}
    w.store.delete_queue(put(w, "team").path, w.clock.now(), w.clock.wall())
    w.tick()
    assert present(w) == ["lab"]
    assert w.store.take_inbox(10).intents == ()


def test_a_restart_keeps_queues_and_a_follower_has_them(w: World) -> None:
    w.node("a", slots=2)
    put(w, "lab")
    w.tick()
    w.kill_engine()
    w.tick()
    assert present(w) == ["lab"]


def test_what_was_set_before_a_crash_is_known_after_it(w: World) -> None:
    w.node("a", slots=2)
    w.tick()
    put(w, "lab")
    w.kill_engine()
    w.tick()
    assert present(w) == ["lab"]


@pytest.mark.parametrize("column", ["weight = -1", "path = x'ff00'"])
def test_jobs_of_a_queue_whose_row_cannot_be_read_wait_or_go_on_and_no_other_queue_is_touched(
    w: World, column: str
) -> None:
    w.node("a", slots=8)
    for path, limit in (("lab", 4), ("lab/vision", 2), ("team", 4)):
        put(w, path, limit=(("*", limit),))
    runs = w.job("runs", queue="lab/vision", workers=(1, 8))
    w.advance(5)
    with garbage.connected(f"sqlite:///{w.directory / 'world.db'}") as session:
        session.execute(f"UPDATE queues SET {column} WHERE path = 'lab'")
    w.kill_engine()
    held = len(w.get(runs).workers)
    w.store.add_intent(IntentKind.SCALE, w.clock.now(), job_id=runs, min_workers=1, max_workers=9)
    other = w.job("other", queue="team", workers=(1, 8))
    w.advance(5)
    assert w.engine.world is not None
    assert [row.table for row in w.engine.world.unreadable] == ["queues"]
    assert [path for path, queue in w.engine.world.queues.items() if not queue.readable] == ["lab"]
    assert len(w.expect(runs, JobState.RUNNING).workers) == held == 2
    assert len(w.expect(other, JobState.RUNNING).workers) == 4
    w.store.add_intent(IntentKind.SUSPEND, w.clock.now(), job_id=runs)
    w.advance(30)
    w.store.add_intent(IntentKind.RESUME, w.clock.now(), job_id=runs)
    w.advance(60)
    assert w.expect(runs, JobState.QUEUED).wait_reason is WaitReason.QUEUE_UNREADABLE
    w.store.set_queue("lab", lambda _: Queue("lab", w.clock.now(), limit=(("*", 1),)), w.clock.now(), anew=True)
    w.advance(60)
    assert len(w.expect(runs, JobState.RUNNING).workers) == 1


def test_a_saved_case_carries_queues(w: World) -> None:
    w.node("a", slots=2)
    put(w, "lab", guarantee=(("*", 2),), members=("ann",))
    w.tick()
    assert w.engine.world is not None
    case = Case(w.engine.world, w.clock.now(), PolicySettings(), ("none",))
    path = save_case(w.directory / "cases", case)
    assert path is not None
    assert load_case(path) == case
