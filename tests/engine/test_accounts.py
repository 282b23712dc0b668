"""Accounts are the integral of what is held: through crashes, changes of leader and clock, and after retention."""

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import PolicySettings, RetentionSettings, Settings
from scheduler.engine.tick import Step
from scheduler.model.account import HOUR_SECONDS, AccountKey, AccountSum
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.queue import ANY_GPU, Queue
from scheduler.model.queue_usage import accrued
from scheduler.store.queries.accounts import Span
from tests.store import garbage
from tests.world import START, World

FIRST = int(START // HOUR_SECONDS)
EVERY_KEY = ("queue", "user", "gpu_type")
GUARANTEES = {"lab": 3, "team": 2}


def put(world: World, path: str, **fields: object) -> None:
    now = world.clock.now()
    world.store.set_queue(path, lambda _: Queue(path, now, **fields), now)  # type: ignore[arg-type]


def hours(world: World) -> int:
    """The hour after the present one."""
    return math.ceil(world.clock.now() / HOUR_SECONDS) + 1


def usage(
    world: World, by: Collection[str] = EVERY_KEY, first: int = FIRST, last: int | None = None
) -> list[AccountSum]:
    return world.store.accounts(Span(first, last or hours(world), world.clock.now()), by)


def whole(world: World) -> AccountSum:
    """The sum over everything."""
    (found,) = usage(world, ())
    return found


@dataclass
class Integral:
    """What is held by account, added up from tick to tick by what a fresh load shows."""

    world: World
    held: Counter[tuple[int, AccountKey]] = field(default_factory=Counter)
    lent: Counter[tuple[int, str]] = field(default_factory=Counter)
    slots: Counter[AccountKey] = field(default_factory=Counter)
    at: float = START

    def look(self) -> None:
        """Count up to now, then see what is held from now on."""
        now = self.world.clock.now()
        borrowed = {
            queue: max(0, sum(s for key, s in self.slots.items() if key.queue == queue) - most)
            for queue, most in GUARANTEES.items()
        }
        while self.at < now:
            hour = int(self.at // HOUR_SECONDS)
            end = min((hour + 1) * HOUR_SECONDS, now)
            for key, slots in self.slots.items():
                self.held[hour, key] += slots * (end - self.at)  # type: ignore[assignment]
            for queue, slots in borrowed.items():
                self.lent[hour, queue] += slots * (end - self.at)  # type: ignore[assignment]
            self.at = end
        stored = self.world.store.load_world()
        types = {node.name: node.gpu_type or "" for node in stored.nodes}
        self.slots = Counter()
        for job in stored.jobs:
            for worker in job.all_workers:
                key = AccountKey(job.spec.queue, job.spec.user, types[worker.node])
                self.slots[key] += len(worker.slot_ids)


def lived_through(world: World, seed: int) -> Integral:
    """A random history of queues, jobs, crashes and lost nodes over some hours."""
    draw = random.Random(seed)
    integral = Integral(world)
    for name, slots, kind in (("a", 6, "H100"), ("b", 4, "L4"), ("c", 2, None)):
        world.node(name, slots=slots, gpu_type=kind)
    for queue, slots in GUARANTEES.items():
        put(world, queue, guarantee=((ANY_GPU, slots),))
    for step in range(60):
        action = draw.random()
        if action < 0.35:
            behaviour = Behaviour(runtime=Runtime.COMMAND, work_seconds=draw.uniform(20, 9000))
            world.job(
                f"j{step}",
                runtime=Runtime.COMMAND,
                behaviour=behaviour,
                queue=draw.choice(tuple(GUARANTEES)),
                user=draw.choice(("ann", "bob")),
                workers=draw.randint(1, 4),
                priority=draw.randint(0, 2),
            )
        elif action < 0.45 and world.submitted:
            world.ask_cancel(draw.choice(world.submitted))
        elif action < 0.5:
            world.node("b", slots=4, gpu_type=draw.choice(("L4", "A10")))
        elif action < 0.6:
            world.tick_until(draw.choice(list(Step)))
            integral.look()
        for _ in range(draw.randint(1, 4)):
            world.clock.advance(draw.choice((0.5, 1.0, 17.0, 600.0)))
            world.tick()
            integral.look()
    return integral


@pytest.mark.parametrize("seed", range(4))
def test_usage_is_the_integral_of_what_was_held_over_restarts_and_after_retention(tmp_path: Path, seed: int) -> None:
    w = World(tmp_path)
    integral = lived_through(w, seed)
    last = hours(w)
    held: Counter[AccountKey] = Counter()
    for (_, key), seconds in integral.held.items():
        held[key] += seconds
    assert len(held) > 3
    found = {AccountKey(each.queue or "", each.user or "", each.gpu_type or ""): each for each in usage(w)}
    assert set(found) == {key for key, seconds in held.items() if seconds}
    for key, each in found.items():
        assert each.held == pytest.approx(held[key])
    lent = {each.queue: each.lent for each in usage(w, ("queue",))}
    for queue in GUARANTEES:
        assert lent[queue] == pytest.approx(
            sum(seconds for (_, name), seconds in integral.lent.items() if name == queue), abs=1e-3
        )
    assert any(lent.values())
    for hour in range(FIRST, last):
        parts = {each.queue: each for each in usage(w, ("queue",), hour, hour + 1)}
        for queue in GUARANTEES:
            seconds = sum(s for (at, key), s in integral.held.items() if at == hour and key.queue == queue)
            assert (parts[queue].held if queue in parts else 0.0) == pytest.approx(seconds, abs=1e-3)
            borrowed = parts[queue].lent if queue in parts else 0.0
            assert borrowed == pytest.approx(integral.lent[hour, queue], abs=1e-3)
    by_job = usage(w, (*EVERY_KEY, "job"))
    assert all(each.job for each in by_job if each.held), "every job is stored"
    for each in usage(w):
        mine = [one for one in by_job if one[:3] == each[:3]]
        assert sum(one.held for one in mine) == pytest.approx(each.held)
        assert sum(one.lent for one in mine) == pytest.approx(each.lent, abs=1e-3)
    assert sum(one.lost for one in by_job) == pytest.approx(sum(each.lost for each in usage(w)), abs=1e-3)
    before = usage(w)
    assert w.store.purge(w.clock.now() + 1, w.clock.now() + 1).jobs
    assert usage(w) == before
    rest = [each for each in usage(w, ("job",)) if each.job == 0]
    assert rest
    assert sum(each.held for each in usage(w, ("job",))) == pytest.approx(sum(each.held for each in before))
    w.close()


@pytest.mark.parametrize("by", [(), ("queue",), ("user", "gpu_type"), EVERY_KEY, ("job",)])
def test_two_spans_that_meet_come_to_what_the_whole_comes_to(tmp_path: Path, by: tuple[str, ...]) -> None:
    w = World(tmp_path)
    lived_through(w, 7)
    last = hours(w)
    assert last - FIRST >= 3
    everything = {each[:4]: each for each in usage(w, by, FIRST, last)}
    for middle in range(FIRST + 1, last):
        parts = (*usage(w, by, FIRST, middle), *usage(w, by, middle, last))
        for key, each in everything.items():
            mine = [one for one in parts if one[:4] == key]
            assert sum(one.held for one in mine) == pytest.approx(each.held)
            assert sum(one.lent for one in mine) == pytest.approx(each.lent, abs=1e-3)
            assert sum(one.lost for one in mine) == pytest.approx(each.lost, abs=1e-3)
    w.close()


def test_what_is_held_now_counts_without_any_commit(w: World) -> None:
    w.node("a", slots=4, gpu_type="H100")
    w.job("j", workers=2, user="ann")
    w.advance(10)
    revision = w.store.read_lease().revision
    before = whole(w)
    w.clock.advance(7200)
    assert whole(w).held == pytest.approx(before.held + 2 * 7200)
    assert w.store.read_lease().revision == revision
    (found,) = usage(w)
    assert found[:4] == ("", "ann", "H100", None)
    assert found.lent == 0, "nothing is promised to anybody"


def test_a_changed_guarantee_counts_from_its_moment_on(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab")
    w.job("j", workers=4, user="ann", queue="lab")
    w.advance(10)
    before = whole(w)
    assert before.lent == pytest.approx(before.held)
    put(w, "lab", guarantee=((ANY_GPU, 3),))
    w.tick()
    w.clock.advance(100)
    after = whole(w)
    assert (after.held - before.held, after.lent - before.lent) == pytest.approx((400, 100))


def test_lost_work_is_what_the_events_say(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab", guarantee=((ANY_GPU, 4),))
    put(w, "team")
    borrower = w.job("borrower", workers=4, queue="team", user="bob")
    w.advance(100)
    assert whole(w).lost == 0
    w.job("owner", workers=4, queue="lab", user="ann")
    w.advance(200)
    w.expect(borrower, JobState.QUEUED)
    stops = w.events(EventKind.JOB_STOPPING)
    assert [event.cause for event in stops] == [StopReason.RECLAIMED]
    lost = sum(event.amount or 0.0 for event in w.events(EventKind.JOB_STOPPING, EventKind.WORKER_ENDED))
    assert lost > 5
    for by in (("queue",), ("queue", "job")):
        mine = {each.queue: each.lost for each in usage(w, by)}
        assert mine == {"lab": 0.0, "team": pytest.approx(lost)}


def test_shared_slots_are_nobodys(w: World) -> None:
    w.node("a", slots=1, oversell=2.0)
    jobs = [w.job(f"j{n}", workers=1, oversell=True, user="ann") for n in range(2)]
    w.advance(30)
    assert [len(w.get(job).workers) for job in jobs] == [1, 1]
    assert {worker.shared for job in jobs for worker in w.get(job).workers} == {False, True}
    before = whole(w).held
    w.clock.advance(100)
    assert whole(w).held == pytest.approx(before + 100)


def test_a_node_that_gets_other_gpus_moves_what_is_held_to_their_account(w: World) -> None:
    w.node("a", slots=4, gpu_type="L4")
    w.job("j", workers=2, user="ann")
    w.advance(10)
    w.node("a", slots=4, gpu_type="H100")
    w.advance(10)
    assert {each.gpu_type for each in usage(w)} == {"L4", "H100"}
    assert w.engine.world is not None
    assert sum(each.slots for each in w.engine.world.holdings.values()) == 2


def test_a_job_keeps_the_gpu_types_that_its_nodes_had(tmp_path: Path) -> None:
    kept = Settings(state_dir=tmp_path, retention=RetentionSettings(nodes_seconds=100.0))
    w = World(tmp_path, settings=kept)
    w.node("a", slots=4, gpu_type="L4")
    w.node("b", slots=1, gpu_type="A10")
    behaviour = Behaviour(runtime=Runtime.COMMAND, work_seconds=160)
    job = w.job("j", workers=4, user="ann", behaviour=behaviour, runtime=Runtime.COMMAND)
    w.advance(20)
    w.node("a", slots=4, gpu_type="H100")
    w.advance(60)
    w.expect(job, JobState.SUCCEEDED)
    by_type = usage(w, ("gpu_type",))
    assert {each.gpu_type for each in by_type} == {"L4", "H100"}

    def of_job() -> dict[str | None, Any]:
        return {each.gpu_type: pytest.approx(each.held) for each in usage(w, ("gpu_type", "job")) if each.job == job}

    assert of_job() == {each.gpu_type: each.held for each in by_type}
    w.cluster.lose_node(NodeName("a"), listed=False)
    w.tick()
    w.advance(200)
    assert {node.name for node in w.store.list_nodes()} == {"b"}
    assert of_job() == {each.gpu_type: each.held for each in by_type}
    w.store.purge(0.0, 0.0)
    assert of_job() == {each.gpu_type: each.held for each in by_type}
    assert w.store.purge(w.clock.now(), 0.0).jobs == 1
    assert usage(w, ("gpu_type",)) == by_type
    with garbage.connected(f"sqlite:///{w.store.file}") as session:
        assert session.execute("SELECT DISTINCT node FROM node_types").fetchall() == [("b",)]
    w.close()


def test_a_row_of_what_is_held_that_cannot_be_read_is_written_anew(w: World, tmp_path: Path) -> None:
    w.node("a", slots=4)
    w.job("j", workers=2, user="ann")
    w.advance(10)
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        session.execute("UPDATE holdings SET held_slots = 'many'")
    w.kill_engine()
    w.advance(10)
    before = whole(w).held
    w.clock.advance(100)
    assert whole(w).held == pytest.approx(before + 200)
    assert w.store.look_again() or not w.store.unreadable


HALF_LIFE = 1000.0


@pytest.fixture
def decaying(tmp_path: Path) -> Iterator[World]:
    """A world in which usage counts half after 1000 seconds."""
    policy = PolicySettings(usage_half_life_seconds=HALF_LIFE)
    world = World(tmp_path, settings=Settings(state_dir=tmp_path, policy=policy))
    yield world
    world.close()


def decayed_usage(world: World, account: str) -> float:
    assert world.engine.world is not None
    found = world.engine.world.queue_usage.get(account)
    return 0.0 if found is None else found.now(world.clock.now(), HALF_LIFE)


def test_usage_of_queues_decays_and_goes_on_over_restarts(decaying: World) -> None:
    w = decaying
    w.node("a", slots=8)
    put(w, "lab")
    put(w, "lab/vision", share_users=True)
    w.job("one", workers=2, queue="lab/vision", user="ann")
    w.job("two", workers=1, queue="lab", user="bob")
    w.advance(5)
    before = {account: decayed_usage(w, account) for account in ("lab", "lab/vision", "lab/vision@ann", "lab/.")}
    assert before["lab"] == pytest.approx(before["lab/vision"] + before["lab/."])
    w.clock.advance(HALF_LIFE)
    held = accrued(2, 0.0, HALF_LIFE, HALF_LIFE)
    assert decayed_usage(w, "lab/vision@ann") == pytest.approx(before["lab/vision@ann"] / 2 + held)
    w.kill_engine()
    w.tick()
    for job in w.submitted:
        w.ask_cancel(job)
    w.advance(60)
    last = {account: decayed_usage(w, account) for account in before}
    assert last["lab"] == pytest.approx(last["lab/vision"] + last["lab/."])
    assert last["lab/vision"] == pytest.approx(last["lab/vision@ann"])
    w.kill_engine()
    w.tick()
    w.clock.advance(HALF_LIFE - w.settings.engine.lease_seconds)
    for account, was in last.items():
        assert decayed_usage(w, account) == pytest.approx(was / 2)


def test_without_a_half_life_no_usage_is_kept(w: World) -> None:
    w.node("a", slots=2)
    put(w, "lab")
    w.job("j", queue="lab")
    w.advance(5)
    assert w.engine.world is not None
    assert w.engine.world.queue_usage == {}


def test_users_of_a_queue_that_is_shared_later_begin_when_it_is(decaying: World) -> None:
    w = decaying
    w.node("a", slots=2)
    put(w, "lab")
    w.job("j", queue="lab", user="ann")
    w.advance(100)
    assert decayed_usage(w, "lab@ann") == 0.0
    put(w, "lab", share_users=True)
    w.tick()
    w.clock.advance(100)
    assert decayed_usage(w, "lab@ann") == pytest.approx(accrued(1, 0.0, 100.0, HALF_LIFE))
    put(w, "lab")
    w.tick()
    assert w.engine.world is not None
    assert w.engine.world.queue_usage["lab@ann"].slots == 0


def test_what_is_held_for_days_is_charged_once_a_day(w: World) -> None:
    w.node("a", slots=4)
    w.job("j", workers=2, user="ann")
    w.advance(10)
    for _ in range(3):
        w.clock.advance(86400.0)
        w.tick()
        w.tick()
        assert w.engine.world is not None
        (holding,) = w.engine.world.holdings.values()
        assert holding.at == w.clock.now()
        assert whole(w).held == pytest.approx(2 * (w.clock.now() - w.get(w.submitted[0]).workers[0].created_at))
