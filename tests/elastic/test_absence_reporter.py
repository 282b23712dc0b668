"""Who is missed is looked for only once somebody is to be named."""

import math

import pytest

from scheduler.elastic.membership.absence_reporter import AbsenceReporter
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.standalone import Alone
from tests.eventually import eventually

MEMBERSHIP = Membership(3, ("7-1", "7-2", "7-3"), None)


@pytest.mark.parametrize("patience_seconds", [math.inf, 3600.0])
def test_who_is_missed_is_not_looked_for_before_the_patience_is_over(patience_seconds: float) -> None:
    with AbsenceReporter(Alone({}), MEMBERSHIP, patience_seconds) as reporter:
        reporter.note(lambda: pytest.fail("nobody is to be named"))


def test_after_that_those_who_have_not_come_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with AbsenceReporter(Alone({}), MEMBERSHIP, 0.0) as reporter:

        def told() -> list[str]:
            reporter.note(lambda: frozenset({1}))
            return [record.getMessage() for record in caplog.records]

        assert eventually(told, "nobody is named") == ["generation 3 has waited for 7-2 for more than 0 s"]
