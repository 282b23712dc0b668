"""Laws of what queues get, in clusters and trees of queues that nobody thought of.

Every plan on the way is checked by `scheduler.policy.checks` as well: limits, takings, guarantees.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Plan, Reserve, Shrink, StopJob
from scheduler.model.queue import ANY_GPU
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.checks.queue_accounts import Accounts
from scheduler.policy.queues.division import divided_among
from scheduler.policy.queues.entitlement import Entitlement
from scheduler.policy.queues.shares import Counts, Shares, Standing, add_to
from scheduler.policy.queues.tree import Tree
from tests.policy.drawn_queues import divisible_clusters, queued_clusters, trees
from tests.policy.worlds import Cluster

#: Rounds of a minute each, in which everything comes to rest.
ROUNDS = 40
#: Clusters in which it is certain who could take what: workers of one slot, on nodes that are alike.
PLAIN = queued_clusters(types=(None,), shapes=(1,))


def settled(c: Cluster) -> Cluster:
    """The cluster at rest, and after an hour, too, when nothing cools down any more."""
    c.settle(ROUNDS)
    c.now += 3600.0
    c.settle(ROUNDS)
    return c


def accounts_of(c: Cluster) -> Accounts:
    return Accounts(c.world(), c.now, c.settings)


def held_by(c: Cluster) -> Counter[str]:
    """Slots by account."""
    accounts, held = accounts_of(c), Counter[str]()
    for job in c.jobs.values():
        for account in accounts.counted_in(job):
            held[account] += job.shape.slots * len(job.workers)
    return held


def free_slots(c: Cluster) -> int:
    return sum(node.slots for node in c.nodes.values()) - sum(mask.bit_count() for mask in c.slots_used().values())


def allowed(c: Cluster, job: Job, workers: int) -> bool:
    """Whether its queues are open, and their limits allow the job this number of workers of one slot more."""
    held, accounts = held_by(c), accounts_of(c)
    return not accounts.is_closed(job) and all(
        held[account] + workers <= limit for (account, _), limit in accounts.limits(job)
    )


def waiting(c: Cluster) -> Iterator[Job]:
    return (job for job in c.jobs.values() if job.state is JobState.QUEUED)


def growing(c: Cluster) -> Iterator[Job]:
    return (job for job in c.jobs.values() if job.workers and len(job.workers) < job.max_workers)


@settings(max_examples=60)
@given(queued_clusters())
def test_everything_comes_to_rest(c: Cluster) -> None:
    c.settle(ROUNDS)
    assert c.plan().actions == ()


@settings(max_examples=40)
@given(queued_clusters(types=(None,), shapes=(1,), pinned=False))
def test_no_slot_is_idle_that_somebody_could_use(c: Cluster) -> None:
    """Unless it is promised to a job that needs more of them, and that its limits allow to have them."""
    free = free_slots(settled(c))
    if any(allowed(c, job, job.min_workers) and job.min_workers > free for job in waiting(c)):
        return
    idle = [job.id for job in waiting(c) if job.min_workers <= free and allowed(c, job, job.min_workers)]
    idle += [job.id for job in growing(c) if free and allowed(c, job, 1)]
    assert not idle, f"{free} slots are free, and {idle} want some"


@settings(max_examples=40)
@given(queued_clusters(types=(None,), shapes=(1,), limits=False, pinned=False))
def test_guarantees_are_met_while_borrowers_hold_enough(c: Cluster) -> None:
    assert not list(unmet(settled(c)))


def unmet(c: Cluster) -> Iterator[tuple[int, int]]:
    """Jobs that could have a guaranteed minimum, or one more worker, if one job of another queue shrank or stopped."""
    accounts, held = accounts_of(c), held_by(c)
    entitled = defaultdict(lambda: Entitlement(0.0, 0.0), accounts.entitled[0])
    takers = [(job, job.min_workers) for job in waiting(c)] + [(job, 1) for job in growing(c)]
    for job, workers in takers:
        mine = accounts.path(job)
        for victim in c.jobs.values():
            theirs = accounts.path(victim)
            depth = next((k for k, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
            if depth is None or held[mine[depth]] + workers > entitled[mine[depth], ANY_GPU].guaranteed:
                continue
            if any(held[each] + workers > entitled[each, ANY_GPU].total for each in mine[depth:]):
                continue
            beyond = min(held[each] - entitled[each, ANY_GPU].total for each in theirs[depth:])
            size = len(victim.workers)
            if (workers <= beyond and size - victim.min_workers >= workers) or workers <= size <= beyond:
                yield int(job.id), int(victim.id)


@settings(max_examples=40)
@given(divisible_clusters())
def test_what_can_be_divided_is_divided_to_within_one_worker(c: Cluster) -> None:
    accounts, held = accounts_of(settled(c)), held_by(c)
    entitled = accounts.entitled[0]
    off = {a: (held[a], part.total) for (a, _), part in entitled.items() if a and abs(held[a] - part.total) >= 1.0}
    assert not off


@settings(max_examples=40)
@given(queued_clusters())
def test_who_loses_to_another_queue_loses_what_is_used(c: Cluster) -> None:
    for _ in range(10):
        before = copy.deepcopy(c)
        futile(before, c.step(60.0))


def futile(c: Cluster, made: Plan) -> None:
    """Workers that leave for a job are on nodes of its reservation, or where a running one may have workers."""
    reserved = {each.job_id: {name for name, _ in each.placement} for each in made.actions if isinstance(each, Reserve)}
    for action in made.actions:
        if isinstance(action, Shrink | StopJob) and action.reason in (LeaveReason.RECLAIMED, StopReason.RECLAIMED):
            victim, taker = c.jobs[action.job_id], c.jobs[action.for_job]  # type: ignore[index]
            gone = action.workers if isinstance(action, Shrink) else [worker.id for worker in victim.workers]
            nodes = {worker.node for worker in victim.workers if worker.id in gone}
            if taker.id in reserved:
                used = reserved[taker.id]
                assert nodes & used if isinstance(action, StopJob) else nodes <= used
            else:
                assert any(c.nodes[name].suits(taker.shape) for name in nodes)


@settings(max_examples=40)
@given(queued_clusters(types=(None,), shapes=(1,), limits=False, pinned=False), st.data())
def test_nobody_is_stopped_where_shrinking_would_do(c: Cluster, data: st.DataObject) -> None:
    """Not after a guarantee was lowered or a node was lost, either."""
    settled(c)
    change(c, data)
    for _ in range(5):
        before = copy.deepcopy(c)
        made = c.plan(outside_bounds=True)
        shrinking = {each.job_id for each in made.actions if isinstance(each, Shrink)}
        accounts = accounts_of(before)
        for stop in made.actions:
            if isinstance(stop, StopJob) and stop.reason is StopReason.RECLAIMED:
                victim = before.jobs[stop.job_id]
                spared = [
                    job
                    for job in before.jobs.values()
                    if accounts.own(job) == accounts.own(victim)
                    and job.id not in shrinking
                    and len(job.workers) - job.min_workers >= len(victim.workers)
                ]
                assert not spared
        c.step(60.0)


def change(c: Cluster, data: st.DataObject) -> None:
    if data.draw(st.booleans()) and len(c.nodes) > 1:
        lost = data.draw(st.sampled_from(sorted(c.nodes)))
        del c.nodes[NodeName(lost)]
        for job_id, job in list(c.jobs.items()):
            left = tuple(worker for worker in job.workers if worker.node != lost)
            if job.workers and len(left) < job.min_workers:
                del c.jobs[job_id]
            elif job.workers:
                c.jobs[job_id] = replace(job, workers=left)
    else:
        k = data.draw(st.integers(0, len(c.queues) - 1))
        c.queues[k] = replace(c.queues[k], guarantee=())


@settings(max_examples=30)
@given(divisible_clusters(direct=False))
def test_neither_names_nor_the_unit_of_weights_matter(c: Cluster) -> None:
    renamed, heavier = copy.deepcopy(c), copy.deepcopy(c)
    renamed.queues = [replace(queue, path=other_name(queue.path)) for queue in c.queues]
    for job_id, job in c.jobs.items():
        renamed.jobs[job_id] = replace(job, spec=replace(job.spec, queue=other_name(job.spec.queue)))
    heavier.queues = [replace(queue, weight=2 * queue.weight) for queue in c.queues]
    sizes = {job_id: len(job.workers) for job_id, job in settled(c).jobs.items()}
    assert {job_id: len(job.workers) for job_id, job in settled(heavier).jobs.items()} == sizes
    assert {job_id: len(job.workers) for job_id, job in settled(renamed).jobs.items()} == sizes


def other_name(path: str) -> str:
    """A path of other names in the opposite order."""
    return path.translate(str.maketrans("abc", "zyx"))


@settings(max_examples=30)
@given(divisible_clusters())
def test_a_queue_gets_no_more_by_more_jobs(c: Cluster) -> None:
    split, number = copy.deepcopy(c), 1000
    for job_id, job in c.jobs.items():
        one = replace(job, max_workers=1, spec=replace(job.spec, max_workers=1))
        split.jobs[job_id] = one
        for _ in range(job.max_workers - 1):
            number += 1
            split.jobs[type(job_id)(number)] = replace(one, id=type(job_id)(number))
    whole, parts = accounts_of(c).entitled[0], accounts_of(split).entitled[0]
    assert whole == parts
    before, after = held_by(settled(c)), held_by(settled(split))
    differ = {account: (before[account], after[account]) for account in before | after}
    assert all(abs(a - b) <= 1 for a, b in differ.values()), "but for who has the odd slot"


@settings(max_examples=80)
@given(c=PLAIN, data=st.data())
def test_a_job_that_can_never_start_takes_no_part_in_the_division(c: Cluster, data: st.DataObject) -> None:
    """The others are entitled to what they would be entitled to without it, and lose nothing for it."""
    before = c.plan()
    queue = data.draw(st.sampled_from([each.path for each in c.queues]))
    largest = max(node.slots for node in c.nodes.values())
    hopeless: list[dict[str, Any]] = [
        {"slots_per_worker": largest + 1},
        {"gpu_type": "none of this cluster"},
        {"workers": sum(node.slots for node in c.nodes.values()) + 1},
        {"selector": {"zone": "nowhere"}, "workers": (1, 9)},
    ]
    limits = [limit for each in c.queues if each.path == queue for kind, limit in each.limit if kind == ANY_GPU]
    hopeless += [{"workers": (limit + 1, limit + 9)} for limit in limits]
    if not any(each.guarantee for each in c.queues):
        hopeless.append({"preemptible": False})
    fields = data.draw(st.sampled_from(hopeless))
    c.waiting(999, queue=queue, priority=9, **fields)
    after = c.plan()
    assert after.actions == before.actions
    told = {(share.path, share.user): share for share in after.shares}
    for share in before.shares:
        assert told[share.path, share.user] == share
    new = [share for key, share in told.items() if key not in {(each.path, each.user) for each in before.shares}]
    assert all(share.wanted == 0 for share in new)


@pytest.mark.parametrize(
    "hopeless",
    [
        {"workers": (5, 9)},
        {"workers": (4, 9), "user": "ann"},
        {"preemptible": False},
        {"slots_per_worker": 9},
        {"fixed": FixedGroup(1, ("true",), shape=WorkerShape(slots=9))},
    ],
)
def test_a_job_that_rules_of_its_queue_or_nodes_never_let_start_is_not_divided_for(hopeless: dict[str, Any]) -> None:
    c = Cluster().node("a", 8).queue("left", limit=4, user_limit=3).queue("right")
    c.waiting(1, queue="left", **hopeless).waiting(2, workers=(1, 8), queue="right")
    assert [(share.path, share.entitled) for share in c.plan().shares] == [("right", 8)]


@pytest.mark.parametrize(
    ("guarantee", "job"),
    [
        ({ANY_GPU: 4}, {"workers": 5, "gpu_type": "x"}),
        ({"y": 4}, {"workers": 2, "gpu_type": "x"}),
        ({"x": 2}, {"workers": 3, "gpu_type": "x"}),
        ({"x": 4, "y": 4}, {"workers": 2}),
        ({"x": 3}, {"workers": 3, "gpu_type": "x", "fixed": FixedGroup(1, ("true",), shape=WorkerShape())}),
        ({ANY_GPU: 4}, {"workers": 3, "gpu_type": "x", "queue": "left/other"}),
        ({"y": 4}, {"workers": 2, "gpu_type": "x", "queue": "left/other"}),
    ],
)
def test_a_job_that_is_not_preemptible_and_above_all_that_guarantees_could_cover_is_not_divided_for(
    guarantee: dict[str, int], job: dict[str, Any]
) -> None:
    c = Cluster().node("a", 8, gpu_type="x").queue("left", guarantee=guarantee).queue("left/one").queue("right")
    c.queue("left/other", guarantee={ANY_GPU: 2, "y": 4})
    c.waiting(1, preemptible=False, **({"queue": "left/one"} | job)).waiting(2, workers=(1, 8), queue="right")
    assert [(share.path, share.entitled) for share in settled(c).plan().shares] == [("right", 8)]
    assert c.reason(1) is WaitReason.NOT_GUARANTEED


def test_what_is_guaranteed_inside_a_queue_of_a_type_that_it_does_not_name_may_cover_a_job() -> None:
    c = Cluster().node("a", 8, gpu_type="x").queue("left", guarantee={"y": 4}).queue("left/one", guarantee={"x": 3})
    c.waiting(1, workers=3, gpu_type="x", queue="left/one", preemptible=False)
    assert settled(c).jobs[JobId(1)].state is JobState.RUNNING


@given(tree=trees((ANY_GPU, "x", "y")), data=st.data())
def test_no_job_is_left_out_of_the_division_that_a_guarantee_covers(
    tree: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    c = Cluster()
    for path, fields in tree.items():
        c.queue(path, **fields)
    among = Tree({queue.path: queue for queue in c.queues})
    counts = st.dictionaries(st.sampled_from(among.kinds[1:] or ("",)), st.integers(1, 9), max_size=2)

    def wanted(of_any: int) -> Counts:
        by_type = data.draw(counts)
        return (of_any + sum(by_type.values()), *(by_type.get(kind, 0) for kind in among.kinds[1:]))

    lanes = [among.lane_of(Cluster().waiting(1, queue=path).jobs[JobId(1)]) for path in tree]
    demand: dict[str, Counts] = {}
    for lane in lanes:
        add_to(demand, lane.path, wanted(data.draw(st.integers(0, 2))))
    slots = data.draw(st.sampled_from(((99.0, 99.0, 99.0), (9.0, 4.0, 5.0))))[: len(among.kinds)]
    entitled = divided_among(among, dict.fromkeys(lanes, 1), demand, {}, {}, slots)
    shares = Shares(Standing(among, (), entitled))
    for lane in lanes:
        needed = wanted(data.draw(st.sampled_from((0, 0, 1))))
        assert among.may_guarantee(lane, needed) or not shares.pins(lane, needed)


def test_what_no_node_could_hold_of_a_job_is_not_divided() -> None:
    c = Cluster().node("a", 2, gpu_type="H100").node("b", 14, gpu_type="A100").queue("left").queue("right")
    c.waiting(1, workers=(1, 14), queue="left", gpu_type="H100")
    c.waiting(2, workers=(1, 16), queue="right", gpu_type="A100")
    shares = {share.path: share for share in c.plan().shares}
    assert (shares["left"].wanted, shares["left"].entitled) == (2, 2)
    assert shares["right"].entitled == 14
    c.settle()
    assert (c.size(1), c.size(2)) == (2, 14)
