"""What every plan guarantees, on worlds that nobody thought of.

The worlds are those of `drawn_worlds`; what is judged by `oracles` is judged without the planner's code.
"""

from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import combinations, product

from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.policy.checks.invariants import check_world
from scheduler.policy.snapshot.order import Order
from tests.policy.drawn_worlds import clusters, full_clusters, random_fields
from tests.policy.oracles import possible, queue, room, takeable, without_reservations, workers_in
from tests.policy.worlds import NOW, Cluster, enact

# Single plans


@given(clusters(drains=True, aging=(0.0, 1.0, 5.0)))
def test_capacity_bounds_and_gangs_hold_at_every_round(c: Cluster) -> None:
    for _ in range(6):
        enact(c, c.plan())
        assert check_world(c.world(), c.now) == []
        c.now += 60


@given(clusters(drains=True, aging=(0.0, 1.0)))
def test_every_waiting_job_has_a_reason_and_every_preemption_a_beneficiary(c: Cluster) -> None:
    waiting = [job.id for job in queue(c)]
    made = c.step()
    for job in queue(c):
        if job.id in waiting:
            assert job.wait_reason not in (None, WaitReason.SUBMITTED)
    for action in made.actions:
        if isinstance(action, Shrink | StopJob) and action.reason == "PREEMPTED":
            assert action.for_job is not None


@given(clusters(aging=(0.0, 0.0, 1.0)))
def test_priority_no_first_waiting_job_could_start_on_what_less_important_ones_hold(c: Cluster) -> None:
    before = queue(c)
    made = c.plan()
    started = {action.job_id for action in made.actions if isinstance(action, Start)}
    reserved = {action.job_id for action in made.actions if isinstance(action, Reserve)}
    blocked = next((job for job in before if job.id not in started | reserved and possible(c, job)), None)
    assume(blocked is not None)
    assert blocked is not None
    ahead = {job.id for job in before[: before.index(blocked)]}
    # Where their first workers stood is not in the plan, once they have grown in it: they are placed anew with others.
    assert any(
        workers_in(beside, blocked, left_for(beside, blocked)) < blocked.min_workers
        for beside in enacted(c, made, ahead)
    )


def left_for(c: Cluster, job: Job) -> Counter[str]:
    """What nobody holds who is as important as this job or more."""
    gone = [worker.id for victim in takeable(c, job) for worker in victim.workers]
    return without_reservations(c, room(c, gone=gone))


def enacted(c: Cluster, made: Plan, jobs: set[JobId]) -> Iterator[Cluster]:
    """Copies in which the plan was done for these jobs, without growth: one for each choice of their first workers."""
    choices: list[list[Action]] = []
    for action in made.actions:
        by = action.for_job if isinstance(action, Shrink | StopJob) else action.job_id
        if by not in jobs or isinstance(action, Grow | Release):
            continue
        if isinstance(action, Start):
            least = c.jobs[action.job_id].min_workers
            choices.append([Start(action.job_id, placement) for placement in first_placements(c, action, least)])
        else:
            choices.append([action])
    for chosen in product(*choices):
        beside = copy(c)
        beside.jobs, beside.strays = dict(c.jobs), dict(c.strays)
        for action in chosen:
            if not fits(beside, action):
                break
            enact(beside, Plan((action,)))
        else:
            yield beside


def fits(c: Cluster, action: Action) -> bool:
    """Whether there is room for those whom the action starts."""
    if not isinstance(action, Start):
        return True
    free, slots = room(c, with_leaving=False), c.jobs[action.job_id].shape.slots
    return all(free[name] >= n * slots for name, n in action.placement)


def first_placements(c: Cluster, start: Start, count: int) -> set[Placement]:
    """All that this number of workers may have had before the job grew to what it starts with."""
    names = [name for name, n in start.placement for _ in range(n)]
    if len(names) > count:
        gpu_type, shape = c.nodes[names[0]].gpu_type, c.jobs[start.job_id].shape
        suiting = [node for node in c.nodes.values() if node.gpu_type == gpu_type and node.suits(shape)]
        names += [node.name for node in suiting for _ in range(count)]
    return {tuple(sorted(Counter(kept).items())) for kept in combinations(names, count)}


@given(full_clusters())
def test_victims_are_minimal_and_shrink_before_anyone_stops(c: Cluster) -> None:
    job = c.jobs[JobId(99)]
    made = c.plan()
    stopped = {a.job_id for a in made.actions if isinstance(a, StopJob)}
    shrunk = [w for a in made.actions if isinstance(a, Shrink) for w in a.workers]
    whole = {k: [w.id for w in c.jobs[k].workers] for k in stopped}
    taken = shrunk + [w for ids in whole.values() for w in ids]
    if not taken:
        return
    assert workers_in(c, job, room(c)) < job.min_workers, "nobody is taken from where what is free would do"
    assert workers_in(c, job, room(c, gone=taken)) >= job.min_workers
    for worker in shrunk:
        assert workers_in(c, job, room(c, gone=set(taken) - {worker})) < job.min_workers
    for job_id in stopped:
        assert workers_in(c, job, room(c, gone=set(taken) - set(whole[job_id]))) < job.min_workers
    if stopped and job.shape.slots == 1:
        for choice in shrinkings(takeable(c, job)):
            assert workers_in(c, job, room(c, gone=choice)) < job.min_workers, "shrinking would have done"


def shrinkings(victims: list[Job]) -> list[list[str]]:
    """Every way to shrink all victims to their minimum."""
    ways: list[list[str]] = [[]]
    for victim in victims:
        wanted = [worker.id for worker in victim.wanted_workers]
        surplus = max(len(wanted) - victim.min_workers, 0)
        ways = [way + list(more) for way in ways for more in combinations(wanted, surplus)]
    return ways[:5000]


@given(full_clusters())
def test_the_least_important_give_first(c: Cluster) -> None:
    job = c.jobs[JobId(99)]
    made = c.plan()
    losers = {a.job_id: len(a.workers) for a in made.actions if isinstance(a, Shrink)}
    stopped = {a.job_id for a in made.actions if isinstance(a, StopJob)}
    if job.shape.slots > 1 or not losers:
        return
    for victim in takeable(c, job):
        if victim.priority < max(c.jobs[k].priority for k in losers) and victim.id not in stopped:
            assert len(victim.workers) - losers.get(victim.id, 0) == victim.min_workers


@given(clusters(limits=(None,)))
def test_no_futile_harm_who_was_taken_for_starts_as_soon_as_the_slots_are_free(c: Cluster) -> None:
    stopped = {job.id for job in c.jobs.values() if job.state is JobState.STOPPING}
    made = c.step()
    takers = {a.for_job for a in made.actions if isinstance(a, Shrink | StopJob) and a.reason == "PREEMPTED"}
    for number in stopped | {a.job_id for a in made.actions if isinstance(a, StopJob)}:
        c.finish(number)  # back in the queue, it would be a newcomer that may be the most important of all
    second = c.plan()
    started = {a.job_id for a in second.actions if isinstance(a, Start)}
    assert takers <= started


@given(clusters(), st.data())
def test_a_reservation_is_not_stolen_by_equal_or_less_important_jobs(c: Cluster, data: st.DataObject) -> None:
    made = c.plan()
    holders = [a.job_id for a in made.actions if isinstance(a, Reserve)]
    assume(holders)
    enact(c, made, slowly=True)
    keep = min(c.jobs[k].priority for k in holders)
    strongest = max(job.priority for job in c.jobs.values() if job.state in (JobState.QUEUED, JobState.STOPPING))
    for number in range(50, 54):
        c.waiting(number, **{**random_fields(data.draw, (1, 2), (None, 10.0)), "priority": keep, "submitted_at": 0.0})
    again = c.plan()
    lost = {a.job_id for a in again.actions if isinstance(a, Release)}
    assert not lost & set(holders)
    assert not any(isinstance(a, Shrink | StopJob) and a.for_job in holders for a in again.actions)
    for _ in range(2):
        enact(c, again)
        again = c.plan()
    assert all(c.jobs[k].state is JobState.RUNNING for k in holders if c.jobs[k].priority >= strongest)


# Many rounds


@given(clusters(drains=True))
def test_stability_a_world_settles_and_five_more_rounds_change_nothing(c: Cluster) -> None:
    c.settle(rounds=30)
    for _ in range(5):
        made = c.step(60.0)
        assert (made.actions, dict(made.waiting)) == ((), {})


@given(clusters(leaving=False, shapes=(1,), types=("x",)))
def test_stability_who_starts_or_grows_is_not_taken_from_at_once(c: Cluster) -> None:
    made = c.step()
    gained = {a.job_id for a in made.actions if isinstance(a, Start | Grow)}
    assume(gained and not any(isinstance(a, StopJob) for a in made.actions))
    assert not gained & {a.job_id for a in c.actions() if isinstance(a, Shrink | StopJob)}


@given(clusters(limits=(None,)))
def test_work_conservation_no_slot_idles_that_somebody_may_use(c: Cluster) -> None:
    c.settle(rounds=30)
    waiting = [job for job in queue(c) if possible(c, job)]
    left = room(c)
    first = waiting[0] if waiting else None
    if first is not None:
        assert workers_in(c, first, left) < first.min_workers
    order = Order(c.now, c.settings)
    for job in waiting[1:]:
        if first is not None and job.spec.preemptible and order.more_important(first, job):
            assert workers_in(c, job, left) < job.min_workers
    for job in c.jobs.values():
        if job.state is not JobState.RUNNING or len(job.workers) >= job.max_workers:
            continue
        free_to_grow = first is None or order.more_important(job, first)
        if free_to_grow or (first and job.spec.preemptible and order.more_important(first, job)):
            kind = c.nodes[job.workers[0].node].gpu_type
            here = Counter({n: s for n, s in left.items() if c.nodes[n].gpu_type == kind})  # type: ignore[index]
            assert workers_in(c, job, here) == 0


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=6))
def test_growth_is_by_priority_and_even_among_equals(slots: int, jobs: list[tuple[int, int]]) -> None:
    c = Cluster().node("a", max(slots, len(jobs)))
    for number, (priority, most) in enumerate(jobs, 1):
        c.waiting(number, priority=priority, workers=(1, most))
    c.settle()
    sizes = {job.id: len(job.workers) for job in c.jobs.values()}
    for a in c.jobs.values():
        for b in c.jobs.values():
            if a.priority > b.priority and sizes[b.id] > 1:
                assert sizes[a.id] == a.max_workers
            if a.priority == b.priority and sizes[a.id] < a.max_workers:
                assert sizes[b.id] <= sizes[a.id] + 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 12), st.integers(1, 3))
def test_placement_uses_as_few_nodes_as_possible(nodes: list[int], workers: int, slots: int) -> None:
    c = Cluster()
    for name, count in zip("abcde", nodes, strict=False):
        c.node(name, count)
    c.waiting(1, workers=(workers, workers), slots_per_worker=slots)
    starts = [a for a in c.actions() if isinstance(a, Start)]
    fits = sorted((count // slots for count in nodes), reverse=True)
    if sum(fits) < workers:
        assert not starts
        return
    fewest = next(k for k in range(1, len(fits) + 1) if sum(fits[:k]) >= workers)
    assert len(starts[0].placement) == fewest


@given(st.integers(2, 4), st.floats(1.0, 20.0), st.sampled_from([(), (5,)]))
def test_no_starvation_with_aging_a_large_old_job_starts_under_a_stream_of_small_ones(
    size: int, per_hour: float, ceilings: tuple[int, ...]
) -> None:
    c = Cluster(PolicySettings(aging_per_hour=per_hour, aging_ceilings=ceilings)).node("a", 4)
    c.waiting(1, workers=(size, size), priority=0, preemptible=False, submitted_at=NOW, queued_at=NOW)
    number, ends = 1, {}
    for tick in range(400):
        number += 1
        c.waiting(number, priority=1, preemptible=False, submitted_at=c.now, queued_at=c.now)
        enact(c, c.plan())
        if c.jobs[JobId(1)].state is JobState.RUNNING:
            return
        for job in list(c.jobs.values()):
            if job.state is JobState.RUNNING and ends.setdefault(job.id, tick + 5) <= tick:
                c.finish(job.id)
        c.now += 300
    raise AssertionError("starved")


@given(st.integers(1, 6))
def test_without_aging_the_stream_of_more_important_jobs_does_starve_it(hours: int) -> None:
    """The counterpart that shows that the test above can fail."""
    c = Cluster().node("a", 1).running(2, {"a": 1}, priority=1).waiting(1, queued_at=NOW - hours * 3600)
    c.waiting(3, priority=1)
    c.finish(2)
    assert [a.job_id for a in c.actions()] == [3]


@given(c=clusters(drains=True), data=st.data())
def test_beside_bookings_plans_hold_the_invariants_and_come_to_rest(c: Cluster, data: st.DataObject) -> None:
    for name in data.draw(st.sampled_from((("b",), ("b", "c")))):
        start = data.draw(st.sampled_from((-100.0, 0.0, 20.0, 1000.0)))
        slots = data.draw(st.integers(1, 2))
        c.booked(name, data.draw(st.integers(1, 6)), start, start + 2000.0, WorkerShape(slots=slots))
    for number in list(c.jobs):
        booking = data.draw(st.sampled_from((None, None, "b", "c")))
        c.jobs[number] = replace(c.jobs[number], spec=replace(c.jobs[number].spec, booking=booking))
    for _ in range(12):
        before = dict(c.jobs)
        made = c.plan(outside_bounds=True)
        enact(c, made)
        if not made.actions and c.jobs == before:
            return
        c.now += 0.01
    raise AssertionError(f"no rest: {made}")
