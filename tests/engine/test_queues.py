"""Queues in the world that decisions look at: as users have set them, over restarts and at those that follow."""

from scheduler.config import PolicySettings
from scheduler.engine.replay_case import Case, load_case, save_case
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


def test_a_queue_whose_row_cannot_be_read_counts_as_missing_and_its_jobs_go_on(w: World) -> None:
    w.node("a", slots=2)
    put(w, "lab")
    put(w, "lab/vision")
    w.job("j", queue="lab/vision")
    w.advance(5)
    with garbage.connected(f"sqlite:///{w.directory / 'world.db'}") as session:
        session.execute("UPDATE queues SET weight = -1 WHERE path = 'lab/vision'")
    w.kill_engine()
    w.advance(5)
    assert present(w) == ["lab"]
    assert w.engine.world is not None
    assert [str(row).split(":")[0] for row in w.engine.world.unreadable] == ["queues lab/vision"]
    assert [job.spec.queue for job in w.engine.world.active.values()] == ["lab/vision"]


def test_a_saved_case_carries_queues(w: World) -> None:
    w.node("a", slots=2)
    put(w, "lab", guarantee=(("*", 2),), members=("ann",))
    w.tick()
    assert w.engine.world is not None
    case = Case(w.engine.world, w.clock.now(), PolicySettings(), ("none",))
    path = save_case(w.directory / "cases", case)
    assert path is not None
    assert load_case(path) == case
