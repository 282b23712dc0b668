"""What a job may take from other queues: no less than it may, and nothing that leaves these less than their part."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import given

from scheduler.config import PolicySettings
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.shape import WorkerShape
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.claim import Claim
from scheduler.policy.preempt.lanes import LaneTable
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.shares import Counts, kind_of
from scheduler.policy.queues.tree import TOP
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.standing import counts_of
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import Bools
from tests.policy.drawn_queues import queued_clusters
from tests.policy.worlds import NOW, Cluster

#: A victim, the workers above its minimum that it may lose, and whether all of it may be stopped.
Offer = tuple[int, int, bool]


class Claimed:
    """What one waiting job may take in a drawn world."""

    def __init__(self, c: Cluster, number: int) -> None:
        self.draft = draft = Draft(Snapshot(c.world(), c.now, c.settings))
        assert draft.shares is not None
        self.shares, self.job = draft.shares, draft.world.queued[JobId(number)]
        by_lane = Victims(draft).by_lane
        assert by_lane is not None
        self.by_lane: LaneTable = by_lane
        self.counts: Counts = counts_of(self.shares.standing, self.job, self.job.min_workers)
        self.lane = draft.lane(self.job)
        self.claim = Claim(draft, self.shares, self.lane, self.counts)

    @property
    def everybody(self) -> Bools:
        everybody: Bools = self.draft.victim_table.table["job"] > 0
        return everybody

    @property
    def finds_any(self) -> bool:
        return self.claim.finds_any(self.by_lane, self.everybody)

    def offers(self, *, shrinkable: bool, most: int | None = None, stops_below: bool = False) -> list[Offer]:
        claim = self.claim.anew(stops_below=stops_below)
        order = claim.victims(self.by_lane, self.everybody, shrinkable=shrinkable, most=most)
        ids = self.draft.victim_table.table["job"][order.records].tolist()
        return list(zip(ids, order.spare.tolist(), order.whole.tolist(), strict=True))

    def reservations(self) -> list[Taking]:
        return self.claim.reservations

    def slots_of(self, job: Job, workers: int) -> Counts:
        """Slots of this many workers of an active job, by kind."""
        held = self.shares.standing.counts(self.draft.usages[job.id].held)
        kind, slots = kind_of(held), workers * job.shape.slots
        return tuple(slots if k in (0, kind) else 0 for k in range(len(held)))

    def losers(self, job: Job) -> tuple[str, ...]:
        """The accounts of an active job that are not the taker's, from the lowest common one down."""
        lane = self.draft.lane(job)
        return lane.path[lane.shared_levels(self.lane) :]

    def lost(self, spare: dict[int, int]) -> Counter[tuple[str, int]]:
        """What accounts lose by kind if these jobs lose this many workers."""
        lost = Counter[tuple[str, int]]()
        for job_id, workers in spare.items():
            job = self.draft.world.active[JobId(job_id)]
            slots = dict(enumerate(self.slots_of(job, workers)))
            lost.update({(account, kind): slots[kind] for account in self.losers(job) for kind in slots})
        return lost

    def left(self, job: Job, lost: Counter[tuple[str, int]]) -> float:
        """Slots that the accounts of an active job can still lose of its kind."""
        kinds = {0, kind_of(self.slots_of(job, 1))}
        return min((self.shares.beyond(a, k) - lost[a, k] for a in self.losers(job) for k in kinds), default=0.0)

    def may_shrink(self, job: Job) -> bool:
        """Whether workers of an active job are there to be taken, if its accounts can lose any."""
        lane, takeable = self.draft.lane(job), job.id in self.draft.victim_table and job.spec.shrinkable
        others = lane is not TOP and lane.own != self.lane.own
        return takeable and others and lane.shared_levels(self.lane) in self.claim.depths


def claims(c: Cluster) -> Iterator[Claimed]:
    for job in c.world().queued.values():
        claimed = Claimed(c, job.id)
        if claimed.lane is not TOP:
            yield claimed


@given(queued_clusters())
def test_no_account_shrinks_below_its_part_and_all_that_may_shrink_does(c: Cluster) -> None:
    for claimed in claims(c):
        spare = {job_id: workers for job_id, workers, _ in claimed.offers(shrinkable=True)}
        lost = claimed.lost(spare)
        for job in claimed.draft.world.active.values():
            above = len(claimed.draft.usages[job.id].staying) - job.min_workers - spare.get(job.id, 0)
            left = claimed.left(job, lost)
            assert above >= 0
            if job.id in spare:
                assert claimed.draft.lane(job).own != claimed.lane.own
                assert spare[job.id] > 0
                assert left >= 0 or kind_of(claimed.counts), "a guarantee of a type counts more than what is lent"
            if claimed.may_shrink(job) and above:
                assert left < job.shape.slots


@given(queued_clusters())
def test_the_queue_with_most_of_its_part_loses_first(c: Cluster) -> None:
    for claimed in claims(c):
        for shrinkable in (True, False):
            offers = claimed.offers(shrinkable=shrinkable)
            victims = [claimed.draft.world.active[job_id] for job_id, _, _ in offers]
            parts = [claimed.shares.part(claimed.losers(job)[0]) for job in victims]
            assert parts == sorted(parts, reverse=True)
            for most in (1, 2):
                first = claimed.offers(shrinkable=True, most=most)
                assert first == claimed.offers(shrinkable=True)[:most]


@given(queued_clusters())
def test_what_waits_for_others_is_taken_over_whole(c: Cluster) -> None:
    for claimed in claims(c):
        for taking in claimed.reservations():
            assert claimed.draft.lane(taking.victim).own != claimed.lane.own
            assert (taking.workers, taking.whole) == ((), False)
            assert taking.freed == tuple(claimed.draft.held_for(taking.victim))


@given(queued_clusters())
def test_where_nothing_is_found_nothing_is_offered(c: Cluster) -> None:
    for claimed in claims(c):
        if not claimed.finds_any:
            assert not claimed.reservations()
            assert not claimed.offers(shrinkable=True)
            assert not claimed.offers(shrinkable=False)
            assert not claimed.offers(shrinkable=False, stops_below=True)


def holding() -> Cluster:
    """The queue on the left has reserved all; that on the right waits."""
    c = Cluster().node("a", 8).queue("left").queue("right").queue("other", limit=0)
    c.running(1, on={"a": 8}, workers=8, queue="other", leaving=8)
    for number in (2, 3, 4):
        c.waiting(number, workers=2, queue="left", reservation=(("a", 2),), priority=number)
    return c.waiting(5, workers=4, queue="right")


def test_the_last_of_those_that_wait_loses_what_is_held_for_it_first() -> None:
    claimed = Claimed(holding(), 5)
    (taking,) = claimed.reservations()
    assert taking[1:] == ((), False, ((0, (2, 0, 0)),))
    assert taking.victim.id == 2, "6 are held, of which 4 are theirs; two of one job are not taken in parts"
    assert claimed.finds_any


def test_what_this_plan_holds_for_another_job_stays_its_own() -> None:
    claimed = Claimed(holding(), 5)
    draft = claimed.draft
    for number in (2, 3, 4):
        job = draft.world.queued[JobId(number)]
        draft.unhold(job)
        draft.hold(job, ((("a", 1),),))
    claimed.claim = Claim(draft, claimed.shares, claimed.lane, claimed.counts)
    assert claimed.reservations() == []


def test_reservations_stay_where_less_than_all_of_one_is_borrowed() -> None:
    c = Cluster().node("a", 5).queue("left").queue("right").queue("other", limit=0)
    c.running(1, on={"a": 5}, workers=5, queue="other", leaving=5)
    c.waiting(2, workers=4, queue="left", reservation=(("a", 4),)).waiting(5, workers=(1, 5), queue="right")
    assert Claimed(c, 5).reservations() == []


def test_workers_leave_as_long_as_all_their_slots_are_borrowed() -> None:
    c = Cluster().node("a", 9).queue("left").queue("mid").queue("right").waiting(9, workers=(1, 9), queue="right")
    c.running(1, on={"a": 4}, workers=(1, 9), queue="mid").running(2, on={"a": 5}, workers=(1, 9), queue="left")
    assert Claimed(c, 9).offers(shrinkable=True) == [(2, 2, False), (1, 1, False)], "3 are left to each"
    assert Claimed(c, 9).offers(shrinkable=True, most=1) == [(2, 2, False)]
    for slots, size, spare in ((2, 2, 1), (2, 4, 2), (3, 3, 1), (3, 2, 1), (4, 2, 1)):
        c = Cluster().node("a", slots * size).queue("left").queue("right").waiting(9, workers=(1, 99), queue="right")
        c.running(1, on={"a": size}, workers=(1, 9), slots_per_worker=slots, queue="left")
        assert Claimed(c, 9).offers(shrinkable=True) == [(1, spare, False)], (slots, size)
    c = Cluster().node("a", 4).queue("left").queue("right").waiting(9, workers=1, queue="right")
    c.running(1, on={"a": 2}, workers=(1, 9), slots_per_worker=2, queue="left")
    assert Claimed(c, 9).offers(shrinkable=True) == [], "one of 4 slots is borrowed, and a worker has two"


def test_an_elastic_job_is_stopped_with_what_it_has_left() -> None:
    c = Cluster().node("a", 4).queue("left").queue("right", guarantee=4).waiting(9, workers=4, queue="right")
    c.running(1, on={"a": 4}, workers=(2, 4), queue="left")
    assert Claimed(c, 9).offers(shrinkable=True) == [(1, 2, False)]
    assert Claimed(c, 9).offers(shrinkable=False) == [(1, 2, True)]


def test_a_guarantee_of_a_type_takes_slots_of_that_type_from_whoever_holds_them() -> None:
    c = (
        Cluster()
        .node("h", 4, gpu_type="H100")
        .node("a", 12, gpu_type="A100")
        .queue("left")
        .queue("right", guarantee={"H100": 4})
    )
    c.running(1, on={"h": 4}, workers=(1, 4), queue="left", gpu_type="H100")
    c.running(2, on={"a": 12}, workers=12, queue="right", gpu_type="A100")
    claimed = Claimed(c.waiting(9, workers=2, queue="right", gpu_type="H100"), 9)
    assert claimed.offers(shrinkable=True) == [(1, 3, False)], "although its queue holds more than its half"
    other = Claimed(c.waiting(10, workers=2, queue="right", gpu_type="A100"), 10)
    assert other.offers(shrinkable=True) == []


def test_a_queue_that_has_its_part_claims_nothing() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right").waiting(9, workers=1, queue="right")
    c.running(1, on={"a": 4}, workers=(1, 8), queue="left").running(2, on={"a": 4}, workers=4, queue="right")
    claimed = Claimed(c, 9)
    assert not claimed.claim.depths
    assert not claimed.finds_any
    assert claimed.offers(shrinkable=True) == claimed.offers(shrinkable=False) == []


def borrowing(guarantee: int = 0, settings: PolicySettings | None = None) -> Cluster:
    """The left queue holds all 8 slots in jobs that cannot shrink, the newest first; the right one wants 4 of them."""
    c = Cluster(settings).node("a", 8).queue("left").queue("right", guarantee=guarantee)
    for number in (1, 2, 3, 4):
        c.running(number, on={"a": 2}, workers=2, queue="left", started_at=NOW - 60 * number)
    return c.waiting(9, workers=(2, 4), queue="right")


def test_for_a_guarantee_as_many_are_stopped_as_were_borrowed() -> None:
    claimed = Claimed(borrowing(guarantee=4), 9)
    assert claimed.claim.stops_for_a_guarantee
    assert claimed.offers(shrinkable=True) == []
    assert claimed.offers(shrinkable=False) == [(1, 0, True), (2, 0, True)], "those that lose least work"


def test_a_job_that_holds_more_than_was_borrowed_is_stopped_only_where_less_may_be_left() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right", guarantee=4)
    c.running(1, on={"a": 6}, workers=6, queue="left").running(2, on={"a": 2}, workers=2, queue="left")
    claimed = Claimed(c.waiting(9, workers=4, queue="right"), 9)
    assert claimed.offers(shrinkable=False) == [(2, 0, True)]
    assert (1, 0, True) in claimed.offers(shrinkable=False, stops_below=True)


def test_shares_beyond_guarantees_stop_only_who_has_run_long_enough() -> None:
    assert Claimed(borrowing(), 9).offers(shrinkable=False) == []
    claimed = Claimed(borrowing(settings=PolicySettings(fair_stop_seconds=180.0)), 9)
    assert claimed.offers(shrinkable=False) == [(3, 0, True), (4, 0, True)]
    assert claimed.draft.next_look_at == NOW + 60, "when job 2 may be stopped"


def test_a_fixed_group_counts_as_lost_with_its_job() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right", guarantee=4)
    fixed = FixedGroup(2, ("serve",), shape=WorkerShape())
    c.running(1, on={"a": 3}, workers=3, queue="left", fixed=fixed, fixed_on={"a": 2})
    claimed = Claimed(c.waiting(9, workers=4, queue="right"), 9)
    assert claimed.offers(shrinkable=False) == [], "5 slots, of which 4 are its own"


def test_what_one_job_loses_is_not_left_to_the_next_of_its_queue() -> None:
    c = Cluster().node("a", 12).queue("left").queue("right").waiting(9, workers=(1, 6), queue="right")
    for number in (1, 2):
        c.running(number, on={"a": 3}, workers=(1, 3), slots_per_worker=2, queue="left")
    assert [offer[1] for offer in Claimed(c, 9).offers(shrinkable=True)] == [2, 1], "six slots are borrowed"


def test_no_more_jobs_lose_workers_than_are_asked_for() -> None:
    c = Cluster().node("a", 12).queue("left").queue("right").waiting(9, workers=(1, 6), queue="right")
    for number in (1, 2, 3):
        c.running(number, on={"a": 4}, workers=(3, 4), queue="left")
    assert [len(Claimed(c, 9).offers(shrinkable=True, most=most)) for most in (1, 2, 3)] == [1, 2, 3]


def test_a_queue_that_has_lost_all_that_it_borrowed_loses_nothing_more() -> None:
    c = Cluster().node("a", 5).queue("left").queue("right").waiting(9, workers=2, queue="right")
    for number in (1, 2):
        c.running(number, on={"a": 2}, workers=(1, 2), queue="left")
    assert [offer[1] for offer in Claimed(c, 9).offers(shrinkable=True)] == [1]


def test_what_is_held_for_jobs_of_its_own_queue_is_none_of_its_claims() -> None:
    c = holding().waiting(6, workers=2, queue="right", reservation=(("a", 2),)).waiting(7, workers=2, queue="right")
    assert {taking.victim.id for taking in Claimed(c, 7).reservations()} == {2}


def test_a_job_with_a_small_fixed_group_is_not_stopped_for_less_than_both() -> None:
    c = Cluster().node("a", 9).queue("left").queue("right", guarantee=4)
    fixed = FixedGroup(1, ("serve",), shape=WorkerShape(slots=2))
    c.running(1, on={"a": 3}, workers=3, queue="left", fixed=fixed, fixed_on={"a": 1})
    c.running(2, on={"a": 4}, workers=4, queue="left")
    assert Claimed(c.waiting(9, workers=4, queue="right"), 9).offers(shrinkable=False) == [(2, 0, True)]
