"""Durations go by a clock that nobody can set, over restarts and changes of the leader too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.clock import SystemClock, VirtualClock
from scheduler.engine.board import Board
from scheduler.engine.ports import Anchor
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine
from scheduler.engine.timing.steady_clock import AWAY_SECONDS_MAX, SteadyClock
from scheduler.engine.timing.wall_watch import CONFIRM_SECONDS
from scheduler.model.event import EventKind
from scheduler.model.job_state import JobState
from tests.faults.clocks import MachineClock
from tests.world import World

HOUR, DAY = 3600.0, 86400.0
JUMPS = (120.0, 2 * HOUR, 40 * DAY, -10.0, -HOUR, -40 * DAY)


class JumpingWorld(World):
    """A world whose engine runs on a machine with clocks of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.machine = MachineClock(self.clock)
        self.restart()

    def restart(self) -> None:
        """Another process on the same machine, as the same daemon."""
        self.steady = SteadyClock(self.machine, self.store.read_lease().anchor)
        self.engine = Engine(
            self.store,
            self.cluster,
            self.steady,
            self.settings,
            self.launch,
            self.board,
            self.reports,
            "engine-1",
        )


@pytest.fixture
def w(tmp_path: Path) -> Iterator[JumpingWorld]:
    world = JumpingWorld(tmp_path)
    world.node("a", slots=2)
    yield world
    world.close()


@pytest.fixture(params=["running", "restarted", "rebooted"])
def jump(w: JumpingWorld, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Sets the machine's time while the daemon runs, or while it is away."""

    def do(seconds: float) -> None:
        if request.param == "rebooted" and 0 < seconds <= AWAY_SECONDS_MAX:
            pytest.skip("nothing tells a machine that was off from one whose clock was set meanwhile")
        w.machine.jump(seconds)
        if request.param == "rebooted":
            w.machine.reboot()
        if request.param != "running":
            w.restart()

    return do


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_grace_lasts_as_long_as_it_was_granted(w: JumpingWorld, jump, seconds: float) -> None:  # type: ignore[no-untyped-def]
    job_id = w.job("j", grace_seconds=60)
    w.settle()
    w.ask_cancel(job_id)
    w.tick()
    [worker] = w.get(job_id).workers
    deadline = worker.stop_deadline
    assert deadline is not None
    jump(seconds)
    w.tick()
    assert 59.0 <= deadline - w.steady.now() <= 60.0


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_time_limit_ends_a_job_when_it_has_run_so_long(w: JumpingWorld, jump, seconds: float) -> None:  # type: ignore[no-untyped-def]
    job_id = w.job("j", time_limit_seconds=300.0)
    w.settle()
    jump(seconds)
    w.advance(200.0)
    assert w.get(job_id).state is JobState.RUNNING
    w.advance(60.0)
    assert w.get(job_id).state is JobState.FAILED
    [stopping] = w.events(EventKind.JOB_STOPPING)
    assert stopping.cause == "TIME_LIMIT"


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_pause_after_a_failure_ends_in_time(w: JumpingWorld, jump, seconds: float) -> None:  # type: ignore[no-untyped-def]
    job_id = w.job("j", max_retries=3)
    w.settle()
    [worker] = w.get(job_id).workers
    w.cluster.crash(worker.id, 1)
    w.tick()
    jump(seconds)
    w.advance(30)
    w.expect(job_id, JobState.RUNNING, workers=1)


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_jump_is_told_and_believed_once_it_has_lasted(w: JumpingWorld, seconds: float) -> None:
    w.tick()
    w.machine.jump(seconds)
    w.tick()
    [told] = w.events(EventKind.CLOCK_JUMPED)
    assert told.amount == pytest.approx(seconds)
    assert w.engine.jump is not None
    assert [str(w.engine.jump)] == w.engine.troubles()
    assert f"by {abs(seconds):.0f} s" in w.engine.troubles()[0]
    w.advance(CONFIRM_SECONDS + 5)
    assert w.engine.jump is None
    assert len(w.events(EventKind.CLOCK_CONFIRMED)) == 1
    assert w.store.read_lease().ahead_seconds == pytest.approx(seconds)
    w.restart()
    w.advance(10)
    assert len(w.events(EventKind.CLOCK_JUMPED)) == 1, "a time that was confirmed is no news after a restart"


def test_a_clock_that_is_set_right_again_moves_nothing(w: JumpingWorld) -> None:
    w.book("later", slots=1, start=HOUR, duration=HOUR)
    w.tick()
    before = w.engine.world.bookings["later"] if w.engine.world else None
    w.machine.jump(2 * HOUR)
    w.advance(60)
    w.machine.jump(-2 * HOUR)
    w.advance(CONFIRM_SECONDS + 60)
    assert w.engine.world is not None
    assert w.engine.world.bookings["later"] == before
    assert not w.events(EventKind.CLOCK_CONFIRMED, EventKind.BOOKING_STARTED)


@pytest.mark.parametrize("seconds", [-600.0, 600.0])
def test_a_booking_follows_the_clock_that_was_confirmed(w: JumpingWorld, seconds: float) -> None:
    start_seconds = 2.5 * CONFIRM_SECONDS
    w.book("later", slots=1, start=start_seconds, duration=HOUR)
    w.tick()
    promised_at = w.machine.now() + start_seconds
    w.machine.jump(seconds)
    w.advance(CONFIRM_SECONDS + 5)
    assert not w.events(EventKind.BOOKING_STARTED)
    w.advance(promised_at - w.machine.now() + 1)
    [started] = w.events(EventKind.BOOKING_STARTED)
    ahead_seconds = w.machine.now() - w.steady.now()
    assert started.at + ahead_seconds == pytest.approx(promised_at, abs=2.0)
    w.restart()
    w.tick()


@pytest.mark.parametrize("years", [-100, 10_000])
def test_a_clock_that_is_off_by_centuries_stops_nobody(w: JumpingWorld, years: float) -> None:
    w.book("later", slots=1, start=HOUR, duration=HOUR)
    job_id = w.job("j")
    w.tick()
    w.machine.jump(years * 365 * DAY)
    w.advance(CONFIRM_SECONDS + 5)
    assert len(w.events(EventKind.CLOCK_CONFIRMED)) == 1
    w.restart()
    w.tick()
    assert not w.store.unreadable
    assert w.engine.report.error is None
    assert w.get(job_id).state is JobState.RUNNING


def test_a_clock_drift_of_seconds_is_no_jump(w: JumpingWorld) -> None:
    for _ in range(4):
        w.machine.jump(1.0)
        w.advance(10)
    assert not w.events(EventKind.CLOCK_JUMPED)


def test_who_takes_over_on_another_machine_goes_on_by_the_leaders_clock(w: JumpingWorld) -> None:
    """Its own is days ahead; it has seen the leader's anchors change."""
    job_id = w.job("j", time_limit_seconds=HOUR)
    w.settle()
    other = MachineClock(w.clock, ahead_seconds=3 * DAY)
    steady = SteadyClock(other, w.store.read_lease().anchor)
    replica = Engine(w.store, w.cluster, steady, w.settings, w.launch, Board(), ReportBox(), "replica")
    for _ in range(10):
        w.clock.advance(1)
        w.tick()
        assert replica.tick().following
    w.clock.advance(w.settings.engine.lease_seconds)
    assert replica.tick().leading
    assert abs(steady.now() - w.steady.now()) <= 3.0
    job = w.get(job_id)
    assert job.state is JobState.RUNNING


@pytest.mark.parametrize("ahead_seconds", [-3 * DAY, 3 * DAY])
def test_a_tick_that_sets_its_clock_by_the_leaders_took_no_longer_by_it(w: JumpingWorld, ahead_seconds: float) -> None:
    w.settle()
    steady = SteadyClock(MachineClock(w.clock, ahead_seconds=ahead_seconds))
    before = steady.now()
    replica = Engine(w.store, w.cluster, steady, w.settings, w.launch, Board(), ReportBox(), "replica")
    reported = []
    for _ in range(3):
        w.clock.advance(1)
        w.tick()
        reported.append(replica.tick())
    assert abs(steady.now() - before) > DAY, "its clock was set"
    assert all(report.following and report.duration_seconds == 0.0 for report in reported)


def test_who_takes_over_at_its_first_look_goes_on_by_the_leaders_clock(w: JumpingWorld) -> None:
    """Its own is days ahead; the leader has stored another anchor since it started, and has gone."""
    job_id = w.job("j", time_limit_seconds=HOUR)
    w.settle()
    steady = SteadyClock(MachineClock(w.clock, ahead_seconds=3 * DAY), w.store.read_lease().anchor)
    replica = Engine(w.store, w.cluster, steady, w.settings, w.launch, Board(), ReportBox(), "replica")
    w.clock.advance(w.settings.engine.lease_seconds)
    w.tick()
    w.engine.release()
    assert replica.tick().leading
    assert abs(replica.report.at - w.steady.now()) <= w.settings.engine.lease_seconds + 3.0
    assert w.get(job_id).state is JobState.RUNNING


moves = st.lists(
    st.tuples(
        st.sampled_from(["pass", "jump", "restart", "reboot", "sleep"]),
        st.floats(min_value=-50 * DAY, max_value=50 * DAY, allow_nan=False),
    ),
    max_size=20,
)


@given(moves=moves)
@settings(deadline=None)
def test_no_duration_ends_early_and_time_never_goes_back(moves: list[tuple[str, float]]) -> None:
    true = VirtualClock(1_000_000_000.0)
    machine = MachineClock(true)
    clock, stored, began = SteadyClock(machine), None, true.now()
    start, away_seconds = clock.now(), 0.0
    for what, seconds in moves:
        before = clock.now()
        match what:
            case "pass":
                true.advance(abs(seconds))
            case "sleep":
                machine.sleep(abs(seconds))
                true.advance(abs(seconds))
            case "jump":
                machine.jump(seconds)
            case "restart":
                stored = clock.anchor()
                machine.jump(seconds)
                clock = SteadyClock(machine, stored)
            case "reboot":
                stored = clock.anchor()
                machine.reboot()
                machine.jump(-abs(seconds))
                true.advance(10.0)
                away_seconds += 10.0
                clock = SteadyClock(machine, stored)
        assert clock.now() >= before
    passed, true_passed = clock.now() - start, true.now() - began
    assert true_passed - away_seconds - 0.01 <= passed <= true_passed + 0.01


@pytest.mark.parametrize(
    ("wall", "booted", "boot", "passed"),
    [
        (110.0, 60.0, "b", 10.0),
        (5000.0, 60.0, "b", 10.0),  # the machine's time was set forward
        (10.0, 60.0, "b", 10.0),  # and back
        (110.0, 9000.0, "b", 10.0),  # what counts from the start of the machine was set, too
        (110.0, 3.0, "b", 10.0),
        (10.0, 3.0, "b", 0.0),
        (100.0 + AWAY_SECONDS_MAX + 1, 3.0, "b", 0.0),  # a virtual machine was set back to how it was
        (110.0, 60.0, "other", 10.0),
        (10.0, 60.0, "other", 0.0),
        (100.0 + AWAY_SECONDS_MAX + 1, 60.0, "other", 0.0),
    ],
)
def test_as_much_has_passed_as_the_most_modest_clock_says(wall: float, booted: float, boot: str, passed: float) -> None:
    class Machine(SystemClock):
        def now(self) -> float:
            return wall

        def booted(self) -> float:
            return booted

        def boot(self) -> str:
            return boot

    assert SteadyClock(Machine(), Anchor(1000.0, 100.0, 50.0, "b")).now() == 1000.0 + passed


def test_a_booking_that_is_over_by_the_confirmed_clock_stops_nobody(w: JumpingWorld) -> None:
    w.node("a", slots=2)
    low = w.job("low", workers=2)
    w.settle()
    w.book("b", slots=2, start=7200.0, duration=10.0)
    w.tick()
    w.machine.jump(6620.0)
    w.advance(CONFIRM_SECONDS + 120.0)
    told = {event.kind for event in w.events(EventKind.CLOCK_CONFIRMED, EventKind.BOOKING_ENDED)}
    assert told == {EventKind.CLOCK_CONFIRMED, EventKind.BOOKING_ENDED}
    assert w.expect(low, JobState.RUNNING).attempt == 1


def test_what_was_noticed_of_the_clock_before_others_led_confirms_nothing(w: JumpingWorld) -> None:
    w.node("a", slots=2)
    w.book("b", slots=2, start=3 * DAY, duration=3600.0)
    w.advance(10.0)
    w.machine.jump(DAY)
    w.tick()
    w.engine.release()
    w.machine.jump(-DAY)
    w.clock.advance(3600.0)
    w.machine.jump(DAY)
    w.tick()
    assert not w.events(EventKind.CLOCK_CONFIRMED)
