"""Nodes on which workers keep failing take none for a while."""

from pathlib import Path

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, Settings
from scheduler.model.event import EventKind
from scheduler.model.job import Runtime
from scheduler.model.node import NodeIntent
from tests.world import World

ELASTIC = Runtime.ELASTIC


def test_a_node_where_several_jobs_fail_is_quarantined_for_a_while(w: World) -> None:
    bad = w.node("bad", slots=4)
    w.node("good", slots=1)
    crashing = Behaviour(runtime=ELASTIC, crash_after_seconds=1.0)
    for name in ("one", "two"):
        w.job(name, workers=2, max_retries=9, behaviour=crashing)
    w.advance(10)
    assert w.engine.world is not None
    assert w.engine.world.nodes[bad].intent is NodeIntent.QUARANTINED
    for job_id in list(w.submitted):
        w.ask_cancel(job_id)
    w.advance(w.settings.engine.quarantine_seconds + 10)
    assert w.engine.world.nodes[bad].intent is NodeIntent.ACTIVE


def test_failures_of_one_user_close_one_node_at_a_time_to_others(w: World) -> None:
    names = ("a", "b", "c")
    nodes = [w.node(name, slots=4, labels=(("is", name),)) for name in names]
    crashing = Behaviour(crash_after_seconds=1.0)

    def crash_on(name: str, user: str) -> None:
        w.job(f"{user}-{name}", selector={"is": name}, max_retries=99, user=user, behaviour=crashing)

    def closed() -> list[str]:
        assert w.engine.world is not None
        intents = [w.engine.world.nodes[node].intent for node in nodes]
        return [name for name, intent in zip(names, intents, strict=True) if intent is NodeIntent.QUARANTINED]

    for name in ("a", "b", "a", "b"):
        crash_on(name, "mallory")
    w.job("others", selector={"is": "c"}, user="ann")
    w.advance(60)
    assert closed() == ["a"]
    crash_on("b", "ann")
    w.advance(60)
    assert closed() == ["a", "b"]


def test_a_quarantine_is_longer_than_the_one_before_but_for_a_calm_time_between(tmp_path: Path) -> None:
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(quarantine_max_seconds=300.0)))
    w.node("bad", slots=4)
    w.node("good", slots=1)
    first = w.settings.engine.quarantine_seconds
    assert quarantine(w) == first
    w.advance(first + 10)
    assert quarantine(w) == 2 * first
    w.advance(2 * first + w.settings.engine.quarantine_max_seconds - 60)
    assert quarantine(w) == 4 * first
    w.advance(4 * first + w.settings.engine.quarantine_max_seconds)
    assert quarantine(w) == first
    w.close()


def quarantine(w: World) -> float | None:
    """Let jobs fail until a node is quarantined, and end them; gives for how long."""
    crashing = Behaviour(runtime=ELASTIC, crash_after_seconds=1.0)
    jobs = [w.job(name, workers=2, max_retries=9, behaviour=crashing) for name in ("one", "two")]
    w.advance(10)
    for job_id in jobs:
        w.ask_cancel(job_id)
    told = [event for _, event in w.store.list_events(limit=1000) if event.kind is EventKind.NODE_QUARANTINED]
    return told[-1].amount
