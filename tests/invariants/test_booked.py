"""What of a booking others hold in its way, and what they may keep."""

import pytest

from scheduler.config import PolicySettings
from tests.invariants.booked import SLACK_SECONDS, BookingsKept
from tests.invariants.broken import Broken
from tests.policy.worlds import CORDONED, Cluster

PUBLISHED = PolicySettings(name="easy")


def cluster() -> Cluster:
    """Four slots were booked long ago, all are held by job 1, and job 2 of the booking waits for four of them."""
    c = Cluster().node("a", 2).node("b", 2).booked("night", 4, -1000.0, 1000.0)
    c.running(1, {"a": 2, "b": 2}, workers=(1, 4), grace_seconds=0.0)
    return c.waiting(2, workers=(4, 4), booking="night")


def lasts(c: Cluster, kept: BookingsKept, *settings: PolicySettings) -> None:
    """Look at it at intervals that are too long for a booking to lack something at two looks in a row."""
    world = c.world()
    for k, each in enumerate(settings):
        kept.after_tick(world, each, c.now, c.now + k * (SLACK_SECONDS + 1.0))


def test_what_a_waiting_job_of_the_booking_could_have_is_not_held_for_long() -> None:
    c = cluster()
    with pytest.raises(Broken):
        lasts(c, BookingsKept(), c.settings, c.settings)


def test_a_job_of_the_booking_that_could_not_start_anyway_leaves_the_slots_to_others() -> None:
    """Of its four slots two are on a node that takes no work."""
    c = cluster()
    c.node("b", 2, intent=CORDONED)
    lasts(c, BookingsKept(), c.settings, c.settings)


def test_what_a_booking_lacked_before_another_policy_decided_is_forgotten() -> None:
    """That one knows no bookings."""
    c = cluster()
    lasts(c, BookingsKept(), c.settings, PUBLISHED, c.settings)
