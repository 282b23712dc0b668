"""The queue of shards: what is given to whom, what comes back, and that nothing is lost or done twice."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.errors import Conflict, InvalidInput
from scheduler.model.data import Charge, DataSet
from scheduler.model.data_queue import DataQueue, Reader, broken_rules
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shard_calls import Moved, ReaderKey, ShardAnswer, ShardCall

NOW = 1_000.0


class Desk:
    """Readers of one queue, each numbering its calls."""

    def __init__(self, **data: object) -> None:
        self.queue = DataQueue(DataSet(**data))  # type: ignore[arg-type]
        self.now = NOW
        self.sequences: Counter[ReaderKey] = Counter()

    def call(self, ordinal: int, *, name: str = "", may_take: bool = True, **fields: object) -> ShardAnswer:
        key = ReaderKey(ordinal, name)
        self.sequences[key] += 1
        self.queue.expire(self.now, 0.0)
        return self.queue.call(
            ShardCall(key, self.sequences[key], **fields),  # type: ignore[arg-type]
            self.now,
            may_take=may_take,
        )

    def given(self, ordinal: int, want: int = 1) -> list[int]:
        return list(self.call(ordinal, want=want).given)


def positions(*numbers: int) -> Ranges:
    return Ranges.of((number, number + 1) for number in numbers)


def test_shards_are_dealt_in_order_and_counted_when_done() -> None:
    desk = Desk(shards=5)
    assert desk.given(1, 2) == [0, 1]
    assert desk.given(2, 2) == [2, 3]
    answer = desk.call(1, done=positions(0, 1), want=2)
    assert (list(answer.given), answer.refused, answer.end) == ([4], NOTHING, False)
    desk.call(2, done=positions(2, 3))
    assert desk.call(1, done=positions(4)).end
    assert desk.call(2).end
    assert desk.queue.progress().fraction == 1.0
    assert desk.queue.news.ended


def test_a_reader_holds_no_more_than_it_wants() -> None:
    desk = Desk(shards=10)
    assert desk.given(1, 3) == [0, 1, 2]
    assert desk.given(1, 3) == []
    assert list(desk.call(1, done=positions(1), want=3).given) == [3]


def test_a_repeated_call_changes_nothing_and_tells_all_that_is_held() -> None:
    desk = Desk(shards=10)
    desk.given(1, 2)
    call = ShardCall(ReaderKey(1, ""), 2, done=positions(0, 7), want=2)
    first = desk.queue.call(call, NOW, may_take=True)
    assert (list(first.given), list(first.refused)) == ([2], [7])
    repeated = desk.queue.call(call, NOW, may_take=True)
    assert (list(repeated.given), list(repeated.refused)) == ([1, 2], [7])
    assert (first.moved, repeated.moved) == (Moved(given=1, done=1), Moved())
    assert desk.queue.done == 1
    with pytest.raises(Conflict, match="call 1 of the reader is older than call 2"):
        desk.queue.call(ShardCall(ReaderKey(1, ""), 1, want=9), NOW, may_take=True)


def test_what_is_given_back_goes_out_first() -> None:
    desk = Desk(shards=10)
    desk.given(1, 4)
    desk.call(1, returned=positions(1, 2))
    assert desk.given(2, 3) == [1, 2, 4]


def test_a_silent_reader_loses_what_it_holds() -> None:
    desk = Desk(shards=2, lease_seconds=10)
    assert desk.given(1, 1) == [0]
    desk.now += 9
    desk.call(1)
    desk.now += 9
    assert desk.given(2, 2) == [1]
    desk.call(2, done=positions(1))
    desk.now += 1
    assert desk.given(2, 2) == [0]
    late = desk.call(1, done=positions(0))
    assert (list(late.refused), desk.queue.done) == ([0], 1)
    assert not desk.call(2, done=positions(0)).refused
    assert desk.queue.ended


def test_silence_while_nobody_listened_proves_nothing() -> None:
    desk = Desk(shards=2, lease_seconds=10)
    desk.given(1, 1)
    desk.queue.expire(NOW + 100, heard_since=NOW + 95)
    assert desk.queue.progress().held == 1
    desk.queue.expire(NOW + 105, heard_since=NOW + 95)
    assert desk.queue.progress().held == 0


def test_an_epoch_begins_when_the_one_before_is_given_out() -> None:
    desk = Desk(shards=2, epochs=2)
    assert desk.given(1, 1) == [0]
    assert desk.given(2, 3) == [1, 2, 3], "a straggler keeps nobody idle"
    desk.call(1, returned=positions(0))
    assert desk.given(3, 3) == [0]


def test_what_failed_is_tried_at_the_end_of_its_epoch_by_one_who_holds_nothing_else() -> None:
    desk = Desk(shards=3, epochs=2)
    desk.given(1, 2)
    desk.call(1, failed=positions(0), detail="cannot be read")
    assert desk.given(1, 2) == [2]
    assert desk.given(1, 3) == [], "the next epoch waits"
    answer = desk.call(1, done=positions(1, 2), want=3)
    assert list(answer.given) == [0]
    assert desk.given(1, 3) == []
    assert desk.given(2, 3) == [3, 4, 5], "what is being tried holds up nobody"
    assert list(desk.call(1, done=positions(0), want=1).given) == []
    assert not desk.queue.failures[0]


def test_a_shard_that_fails_too_often_is_set_aside() -> None:
    desk = Desk(shards=2, max_attempts=2)
    desk.given(1, 1)
    assert list(desk.call(1, failed=positions(0), detail="bad", want=1).given) == [1]
    assert list(desk.call(1, done=positions(1), want=1).given) == [0]
    end = desk.call(1, failed=positions(0), detail="bad again", want=1)
    assert end.end
    assert desk.queue.news.set_aside == [(positions(0), "bad again")]
    assert (desk.queue.done, desk.queue.set_aside) == (1, 1)


def test_one_attempt_is_enough_where_no_more_are_allowed() -> None:
    desk = Desk(shards=1, max_attempts=1)
    desk.given(1)
    assert desk.call(1, failed=positions(0)).end
    assert desk.queue.set_aside == 1


def test_a_poisoned_shard_is_found_and_takes_no_other_with_it() -> None:
    """Shard 3 kills whoever works on it; workers hold four at a time and report all of them together."""
    desk = Desk(shards=10, max_attempts=3)
    deaths, worker = 0, 1
    while not desk.queue.ended:
        held = desk.call(worker, want=4).held
        assert held, "nobody else holds anything, so there is something to do"
        if 3 in set(held):
            desk.queue.end_worker(worker, blamed=True, detail="signal 9")
            worker, deaths = worker + 1, deaths + 1
        else:
            desk.call(worker, done=held)
    assert [list(aside) for aside, _ in desk.queue.news.set_aside] == [[3]]
    assert (desk.queue.done, deaths) == (9, 4), "the first death blames nobody, three blame the one that was alone"


def test_a_worker_that_was_taken_away_blames_nothing() -> None:
    desk = Desk(shards=3, max_attempts=1)
    desk.given(1, 1)
    desk.queue.end_worker(1, blamed=False, detail="")
    assert desk.given(2, 3) == [0, 1, 2]
    assert ReaderKey(1, "") in desk.queue.removed


def test_who_may_take_nothing_can_still_report() -> None:
    desk = Desk(shards=3)
    desk.given(1, 2)
    answer = desk.call(1, may_take=False, done=positions(0), returned=positions(1), want=5)
    assert not answer.given
    assert not answer.held
    assert desk.queue.done == 1


def test_readers_of_one_worker_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.model.data_queue.READERS_MAX", 2)
    desk = Desk(shards=3)
    for name in ("a", "b"):
        desk.call(1, name=name)
    with pytest.raises(Conflict, match="has used 2 readers"):
        desk.call(1, name="c")
    desk.call(2, name="c")


def every_second(held: Ranges) -> Ranges:
    return positions(*list(held)[::2])


def runs_of(queue: DataQueue) -> int:
    parts = [queue.returned, queue.tried, *queue.failures, *(reader.held for reader in queue.readers.values())]
    return sum(len(part.spans) for part in parts)


@pytest.mark.parametrize("report", ["done", "failed", "returned"])
def test_readers_of_a_worker_cannot_break_a_queue_up_into_ever_more_runs(
    monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setattr("scheduler.model.data_queue.SPANS_MAX", 20)
    desk = Desk(shards=10**6, lease_seconds=1)
    readers = [str(number) for number in range(40)]
    held = {name: desk.call(1, name=name, want=100).held for name in readers}

    def break_up() -> None:
        for name in readers:
            desk.call(1, name=name, **{report: every_second(held[name])})

    with pytest.raises(InvalidInput, match="report shards in the order in which they were given") as refused:
        break_up()
    assert refused.value.field == report
    assert runs_of(desk.queue) < 20 + 4 * 40 + 100
    assert not list(broken_rules(desk.queue)), "the call that was refused has changed nothing"


def test_readers_that_take_turns_hold_few_runs_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.model.data_queue.SPANS_MAX", 20)
    desk = Desk(shards=1000)
    for want in range(1, 100):
        for ordinal in (1, 2):
            desk.call(ordinal, want=want)
    assert runs_of(desk.queue) <= 20 + 2 * 4 + 1


def test_a_crowded_queue_is_worked_off_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(shards=100)
    held = desk.call(1, want=100).held
    desk.call(1, returned=every_second(held))
    monkeypatch.setattr("scheduler.model.data_queue.SPANS_MAX", 0)
    desk.queue.end_worker(1, blamed=True, detail="")
    while given := desk.call(2, want=3).given:
        desk.call(2, done=given)
    assert desk.queue.done == 100


def test_a_failure_without_shards_costs_a_retry() -> None:
    desk = Desk(shards=3)
    assert desk.queue.charge(1) is Charge.RETRY
    desk.given(2)
    desk.call(2, done=positions(0))
    desk.call(1)
    assert desk.queue.charge(1) is Charge.RETRY


def test_a_failure_with_shards_is_forgiven_once_others_were_done() -> None:
    desk = Desk(shards=9)
    desk.given(1, 3)
    assert desk.queue.charge(1) is Charge.RETRY
    desk.call(1, done=positions(0))
    assert desk.queue.charge(1) is Charge.FORGIVEN
    desk.queue.end_worker(1, blamed=True, detail="")
    desk.given(2, 3)
    assert desk.queue.charge(2) is Charge.RETRY, "nothing was done since"
    desk.call(2, done=positions(3))
    assert desk.queue.charge(2) is Charge.FORGIVEN


@pytest.mark.parametrize("reports", [False, True])
def test_a_failure_of_a_suspected_shard_is_its_own(*, reports: bool) -> None:
    desk = Desk(shards=2, max_attempts=3)
    desk.given(9)
    desk.call(9, done=positions(0))
    charges = []
    for worker in (1, 2, 3):
        assert desk.given(worker) == [1]
        if reports:
            desk.call(worker, failed=positions(1))
        charges.append(desk.queue.charge(worker))
        desk.queue.end_worker(worker, blamed=True, detail="")
    assert charges == [Charge.FORGIVEN, Charge.SHARD, Charge.SHARD]
    assert desk.queue.set_aside == 1


@pytest.mark.parametrize("reports", [False, True])
def test_where_more_is_set_aside_than_done_a_failure_costs_a_retry(*, reports: bool) -> None:
    desk = Desk(shards=2, max_attempts=2)
    charges = []
    for worker, position in enumerate((0, 1, 0, 1), start=1):
        assert desk.given(worker) == [position]
        if reports:
            desk.call(worker, failed=positions(position))
        charges.append(desk.queue.charge(worker))
        desk.queue.end_worker(worker, blamed=True, detail="")
    assert charges == [Charge.RETRY] * 4
    assert desk.queue.ended


def test_a_reader_that_goes_on_after_a_failed_shard_does_not_fail_by_it() -> None:
    desk = Desk(shards=5)
    desk.given(1)
    desk.call(1, failed=positions(0))
    assert list(desk.call(1, want=1).given) == [1]
    desk.call(1, done=positions(1))
    assert desk.queue.charge(1) is Charge.RETRY


def test_a_reader_that_fell_silent_fails_by_what_it_held() -> None:
    desk = Desk(shards=5, lease_seconds=10)
    desk.given(1, 2)
    desk.given(2, 1)
    desk.call(2, done=positions(2))
    desk.now += 10
    desk.queue.expire(desk.now, 0.0)
    assert desk.queue.charge(1) is Charge.FORGIVEN


class Readers(RuleBasedStateMachine):
    """Workers that take, finish, fail, fall silent and die, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(shards=7, epochs=2, lease_seconds=10, max_attempts=2)
        self.accepted: Counter[int] = Counter()
        self.next_worker = 4

    workers = st.integers(1, 3)
    some = st.sets(st.integers(0, 13), max_size=6)

    @rule(worker=workers, name=st.sampled_from("ab"), want=st.integers(0, 5), done=some, failed=some, returned=some)
    def call(self, worker: int, name: str, want: int, done: set[int], failed: set[int], returned: set[int]) -> None:
        self.desk.queue.expire(self.desk.now, 0.0)
        before = self.desk.queue.readers.get(ReaderKey(worker, name), Reader()).held
        answer = self.desk.call(
            worker,
            name=name,
            want=want,
            done=positions(*done),
            failed=positions(*failed),
            returned=positions(*returned),
        )
        self.accepted.update(done - set(answer.refused))
        assert set(answer.refused) == done - set(before)
        assert set(answer.given) <= set(answer.held)
        assert answer.end == self.desk.queue.ended

    @rule(seconds=st.sampled_from([1, 6, 11]))
    def pass_time(self, seconds: int) -> None:
        self.desk.now += seconds

    @rule(worker=workers, blamed=st.booleans())
    def die(self, worker: int, blamed: bool) -> None:
        self.desk.queue.end_worker(worker, blamed=blamed, detail="died")

    @precondition(lambda self: not self.desk.queue.ended)
    @rule()
    def somebody_always_gets_something(self) -> None:
        """A new worker that comes when all others are gone finds work until the end."""
        for worker in (1, 2, 3):
            self.desk.queue.end_worker(worker, blamed=False, detail="")
        self.next_worker += 1
        given = self.desk.call(self.next_worker, want=3).given
        assert given
        self.desk.queue.end_worker(self.next_worker, blamed=False, detail="")

    @invariant()
    def nothing_is_lost(self) -> None:
        assert not list(broken_rules(self.desk.queue))
        assert all(count == 1 for count in self.accepted.values()), "a shard was accepted as done twice"
        assert len(self.accepted) == self.desk.queue.done


TestReaders = Readers.TestCase
TestReaders.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
