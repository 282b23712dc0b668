"""Standstills of a process, found by the beats that are missing."""

from scheduler.clock import VirtualClock
from scheduler.engine.timing.pulse import BEAT_SECONDS, Pulse


def test_a_process_that_beats_does_not_stand_still() -> None:
    pulse = Pulse(clock := VirtualClock(1000.0))
    for _ in range(100):
        clock.advance(2 * BEAT_SECONDS)  # on a machine that does other things
        pulse.beat()
    assert pulse.went_on_at() == 0.0


def test_a_standstill_is_noticed_before_the_next_beat_and_remembered_after_it() -> None:
    pulse = Pulse(clock := VirtualClock(1000.0))
    pulse.beat()
    clock.advance(30)
    assert pulse.went_on_at() == 1030.0
    clock.advance(0.5)
    pulse.beat()
    clock.advance(1)
    assert 1030.0 <= pulse.went_on_at() <= 1030.5


def test_a_standstill_that_only_the_next_beat_notices_is_remembered() -> None:
    pulse = Pulse(clock := VirtualClock(1000.0))
    pulse.beat()
    clock.advance(30)
    pulse.beat()
    clock.advance(1)
    assert pulse.went_on_at() == 1030.0
