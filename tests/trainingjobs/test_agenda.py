"""Which TrainingJob is looked at next."""

from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.daemon.trainingjobs.agenda import Agenda


def taken(agenda: Agenda, now: float = 0.0) -> list[ObjectKey]:
    """All that is due."""
    found = []
    while (key := agenda.take(now)) is not None:
        found.append(key)
    return found


def test_a_namespace_full_of_objects_keeps_those_of_others_waiting_for_one_turn() -> None:
    agenda = Agenda()
    for number in range(1000):
        agenda.put(("a", str(number)), 0.0)
    assert agenda.take(0.0) == ("a", "0")
    agenda.put(("b", "x"), 0.0)
    agenda.put(("b", "y"), 0.0)
    agenda.put(("c", "z"), 0.0)
    expected = [("a", "1"), ("b", "x"), ("c", "z"), ("a", "2"), ("b", "y"), ("a", "3"), ("a", "4")]
    assert [agenda.take(0.0) for _ in expected] == expected


def test_objects_of_a_namespace_come_when_they_are_due_and_the_sooner_time_of_two_holds() -> None:
    agenda = Agenda()
    agenda.put(("a", "late"), 9.0)
    agenda.put(("a", "moved"), 9.0)
    agenda.put(("a", "early"), 2.0)
    agenda.put(("a", "moved"), 1.0)
    agenda.put(("a", "early"), 5.0)
    assert (agenda.next_at(), agenda.take(0.5)) == (1.0, None)
    assert taken(agenda, 2.0) == [("a", "moved"), ("a", "early")]
    agenda.put(("a", "moved"), 9.0)
    assert agenda.next_at() == 9.0
    assert taken(agenda, 9.0) == [("a", "late"), ("a", "moved")]
    assert agenda.next_at() is None
