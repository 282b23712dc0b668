"""An engine beside the leader: what it knows, when it takes over, and that a leader of before can do no harm."""

import pytest

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.board import Board, Known
from scheduler.engine.leadership.lease_keeper import ASIDE_SECONDS
from scheduler.engine.leadership.sight import BLIND_SECONDS_MAX
from scheduler.engine.ports import Leader, Lease
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Step
from scheduler.errors import StoreUnavailable
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState
from scheduler.store.sqlstore import SqlStore
from tests.engine.replica import Replica, Skewed
from tests.world import World

DAY = 86400.0


@pytest.mark.parametrize("skew_seconds", [0.0, DAY, -DAY])
def test_a_standby_takes_over_when_the_leader_is_silent_whatever_their_clocks_say(
    w: World, skew_seconds: float
) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2)
    w.settle()
    replica = Replica(w, Skewed(w.clock, skew_seconds))
    ttl_seconds = w.settings.engine.lease_seconds
    for _ in range(10):  # longer than the lease, which the leader renews meanwhile
        w.clock.advance(1)
        w.tick()
        assert replica.engine.tick().following
    w.checker.after_following(replica.board)
    assert replica.engine.leader == Leader("engine-1", 1, None)
    alive = {start.worker_id for _, start in w.cluster.alive()}
    w.clock.advance(ttl_seconds - 0.1)
    assert replica.engine.tick().following
    w.clock.advance(0.1)
    report = replica.engine.tick()
    assert (report.leading, report.error) == (True, None)
    assert replica.engine.leader == Leader("replica", 2, "http://replica")
    assert {start.worker_id for _, start in w.cluster.alive()} == alive, "the change of leader harms nobody"
    w.expect(job_id, JobState.RUNNING, workers=2)


def test_a_released_lease_is_taken_at_the_next_look(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    replica = Replica(w)
    assert replica.engine.tick().following
    w.engine.release()
    assert w.engine.lease is None
    assert replica.engine.tick().leading
    assert w.engine.tick().following


def test_a_standby_answers_hosts_and_knows_which_jobs_there_are(w: World) -> None:
    w.node("a", slots=2)
    running = w.job("running", workers=1)
    ended = w.job("ended", workers=1)
    w.settle()
    w.ask_cancel(ended)
    w.settle()
    replica = Replica(w)
    waiting = w.job("not taken by a tick yet")
    replica.engine.tick()
    posting = replica.board.posting(running)
    assert posting is not None
    assert posting.text == b"host-a:1\n"
    known = {job_id: replica.board.known(job_id) for job_id in (ended, waiting, JobId(waiting + 1))}
    assert known == {ended: Known.ENDED, waiting: Known.WAITING, waiting + 1: Known.UNKNOWN}
    w.tick()
    report = replica.engine.tick()
    assert [job.id for job in report.changed] == [waiting]
    w.checker.after_following(replica.board)


def test_nothing_is_asked_of_the_cluster_after_the_lease_has_ended(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    w.job("j")
    for step in w.engine.steps():
        if step is Step.POSTED:
            w.clock.advance(w.settings.engine.lease_seconds)
    assert not w.cluster.alive()


@pytest.mark.parametrize(("set_back_seconds", "suspended_seconds"), [(DAY, 0.0), (0.0, 60.0)])
def test_a_leader_whose_clock_was_set_back_or_stood_still_does_not_act_on_an_old_lease(
    w: World, set_back_seconds: float, suspended_seconds: float
) -> None:
    clock = Skewed(w.clock, 0.0)
    w.node("a", slots=1)
    leader = Replica(w, clock)
    leader.engine.tick()
    w.job("j")
    for step in leader.engine.steps():
        if step is Step.POSTED:
            w.clock.advance(60)
            clock.seconds = -set_back_seconds
            clock.suspended_seconds = suspended_seconds
    assert not w.cluster.alive()


class _Unreadable(SqlStore):
    """A store that one replica cannot read for a while."""

    away = False

    def read_lease(self):  # type: ignore[no-untyped-def]
        if self.away:
            raise StoreUnavailable("database cannot be reached")
        return super().read_lease()


def test_who_could_not_see_the_lease_for_long_watches_it_anew(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    store = _Unreadable(f"sqlite:///{w.directory / 'world.db'}")
    replica = Replica(w, store=store)
    assert replica.engine.tick().following
    store.away = True
    for _ in range(10):
        w.clock.advance(1)
        assert replica.engine.tick().error == "database cannot be reached"
    store.away = False
    assert replica.engine.tick().following, "the leader may have been cut off just as well"
    w.clock.advance(w.settings.engine.lease_seconds)
    assert replica.engine.tick().leading
    store.close()


def test_a_leader_that_comes_back_follows_and_may_lead_again(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=1)
    w.settle()
    replica = Replica(w)
    replica.engine.tick()
    w.clock.advance(w.settings.engine.lease_seconds)
    assert replica.engine.tick().leading
    later = w.job("later", workers=1)
    replica.engine.tick()
    told = (w.engine.report.error, w.engine.tick().error)
    assert any("replica leads in term 2" in (error or "") for error in told)
    assert w.engine.tick().following
    w.checker.after_following(w.board)
    replica.engine.release()
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)
    w.expect(later, JobState.RUNNING, workers=1)


def test_a_leader_that_has_a_lot_to_do_keeps_the_lead_and_one_that_hangs_does_not(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    job_id = w.job("j")
    replica = Replica(w)
    for step in w.engine.steps():
        if step is Step.PLANNED:
            for _ in range(20):
                w.clock.advance(1)
                w.engine.keep_lease()
                assert replica.engine.tick().following
    assert w.get(job_id).state is JobState.STARTING, "a long tick is no reason to throw it away"
    for step in w.engine.steps():
        if step is Step.PLANNED:
            for _ in range(40):
                w.clock.advance(1)
                w.engine.keep_lease()
                replica.engine.tick()
    assert replica.engine.lease is not None
    told = (w.engine.report.error, w.engine.tick().error)
    assert any("replica leads in term 2" in (error or "") for error in told)


def test_a_leader_keeps_the_lead_as_long_as_its_tick_comes_on(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    job_id = w.job("j")
    replica = Replica(w)
    for _ in w.engine.steps():
        for _ in range(20):
            w.clock.advance(1)
            w.engine.keep_lease()
            assert replica.engine.tick().following
    assert w.engine.report.error is None
    assert w.get(job_id).state is JobState.STARTING


def test_a_leader_that_is_cut_off_from_the_cluster_makes_room_for_one_that_is_not(w: World) -> None:
    unreachable = SimulatedCluster(w.clock, Board(), ReportBox())
    unreachable.observe_failures = 1_000_000
    cut_off = Replica(w, cluster=unreachable)
    w.node("a", slots=1)
    job_id = w.job("j")
    for _ in range(int(BLIND_SECONDS_MAX)):
        assert cut_off.engine.tick().error
        assert w.tick().following, "the other one leads, though it does nothing"
        w.clock.advance(1)
    cut_off.engine.tick()
    assert cut_off.engine.lease is None
    assert w.tick().leading
    assert cut_off.engine.tick().following
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)


def test_a_leader_that_is_cut_off_goes_on_trying_where_nobody_else_leads(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    w.cluster.observe_failures = 1_000_000
    for _ in range(2 * int(BLIND_SECONDS_MAX)):
        w.clock.advance(1)
        assert w.tick().error, "it says that nothing is decided"
    w.cluster.observe_failures = 0
    w.clock.advance(ASIDE_SECONDS)
    assert (w.tick().leading, w.engine.report.error) == (True, None)


def test_a_cluster_that_once_failed_to_answer_costs_no_lead_while_the_database_is_away(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    w.cluster.observe_failures = 1
    w.clock.advance(1)
    assert w.tick().error
    renew, w.store.renew_lease = w.store.renew_lease, _is_away  # type: ignore[method-assign]
    w.clock.advance(BLIND_SECONDS_MAX)
    assert w.tick().error
    w.store.renew_lease = renew  # type: ignore[method-assign]
    assert (w.tick().leading, w.engine.report.error) == (True, None)


def _is_away(*_: object, **__: object) -> Lease:
    raise StoreUnavailable("it is away")
