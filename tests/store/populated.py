"""A world with rows in every table."""

from scheduler.model.account import AccountKey, Charge
from scheduler.model.audit import AuditRecord
from scheduler.model.data import DataSet
from scheduler.model.identity import Role, UserToken
from scheduler.model.ids import JobId, ordinal_of
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.queue import Queue
from scheduler.model.queue_usage import QueueUsage
from scheduler.model.ranges import NOTHING
from scheduler.model.shard_calls import ReaderKey, ShardCall
from scheduler.model.world import Changes
from scheduler.store.records import ShardsAsked
from tests.world import World


def populate(world: World) -> JobId:
    """Rows in every table, the first of each about job 1 or node a. The job that is returned runs on node z."""
    world.node("a", slots=4, labels=(("zone", "a"),))
    world.node("z", slots=4, labels=(("zone", "z"),))
    first = world.job(
        "first",
        workers=(1, 2),
        selector={"zone": "a"},
        data=DataSet(shards=100),
        preferred_workers=2,
        labels=(("a", "b"),),
    )
    other = world.job("other", workers=1, selector={"zone": "z"})
    world.book("window", slots=1, start=50_000.0, duration=60.0, selector={"zone": "a"})
    world.store.add_recurring("0 3 * * *", "UTC", JobSpec("nightly", ("true",)), world.clock.now())
    world.store.set_queue("lab", lambda _: Queue("lab", world.clock.now(), max_jobs=9, members=("ann",)), 0.0)
    world.store.begin_webhook("hook")
    world.store.add_token(UserToken(0, "ann", Role.USER, "", "00ff", world.clock.now(), "root"))
    world.store.add_audit([AuditRecord(world.clock.now(), "ann", "token", "::1", "POST", "/v1/jobs", "job 1", 201)])
    world.advance(20)
    assert world.engine.lease is not None
    charge = Charge(0, AccountKey("", "ann", ""), 60.0, 0.0, 0.0)
    world.store.commit(
        Changes(charges=(charge,), budgets_told=(("lab", 0),), queue_usage=(("lab", QueueUsage(9.0, 1.0)),)),
        world.engine.lease,
        world.clock.now(),
    )
    job = world.board.world and world.board.world.job(first)
    assert job is not None
    assert job.state is JobState.RUNNING
    reader = ReaderKey(ordinal_of(job.workers[0].id), "main")
    call = ShardCall(reader, 1, NOTHING, NOTHING, NOTHING, 3, "")
    world.store.exchange_shards([ShardsAsked(first, job.workers[0].id, call)], world.clock.now(), 0.0)
    world.ask(IntentKind.PRIORITY, first, priority=3)
    return other
