"""Agreement without the scheduler: at most one decision per sub-generation, never two groups, whatever is lost.

Messages are lost, delayed, repeated and reordered; members crash. The code that decides is the workers' own.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.quorum import Answer, Ask, Chain, Electorate, Voter, Wait, count_votes, weigh_promises

T = TypeVar("T")
THREE = Electorate(7, ("a", "b", "c"))


@dataclass(frozen=True)
class Moment:
    """One state of a generation. What was said is never taken back: it may arrive late or never."""

    voters: tuple[tuple[object, ...], ...]
    asked: frozenset[Ask] = frozenset()
    answered: frozenset[tuple[Ask, str, Answer]] = frozenset()

    @property
    def decided(self) -> frozenset[Chain]:
        """What anybody takes for decided."""
        return frozenset(ask.chain for ask in self.asked if ask.ballot is None)


class Model:
    """All that the members can do, in any order. One that crashed is one that does nothing any more."""

    def __init__(self, electorate: Electorate, rounds: Mapping[str, int], forgetful: bool = False) -> None:
        """`rounds`: who asks, and up to which round. `forgetful`: members lose what they promised, now and then."""
        self.electorate = electorate
        self.rounds = rounds
        self.forgetful = forgetful

    def reachable(self) -> Iterator[Moment]:
        """Every state that some order of events leads to; nobody hears a question twice."""
        first = Moment(tuple(_memory(Voter(worker, self.electorate)) for worker in self.electorate.workers))
        seen, ahead = {first}, [first]
        while ahead:
            moment = ahead.pop()
            yield moment
            for after in self._after(moment):
                if after not in seen:
                    seen.add(after)
                    ahead.append(after)

    def _after(self, moment: Moment) -> Iterator[Moment]:
        for place, worker in enumerate(self.electorate.workers):
            begun = self._voter(moment, place).ask()
            may_ask = begun.ballot is not None and begun.ballot.round <= self.rounds.get(worker, 0)
            heard = {ask for ask, by, _ in moment.answered if by == worker}
            ahead = {*moment.asked, begun} if may_ask and not begun.chain else moment.asked
            for ask in ahead - heard:
                voter = self._voter(moment, place)
                answer = voter.hear(ask, attended=False)
                yield Moment(
                    _put(moment.voters, place, voter), moment.asked | {ask}, moment.answered | {(ask, worker, answer)}
                )
            if self.forgetful:
                yield Moment(_put(moment.voters, place, Voter(worker, self.electorate)), moment.asked, moment.answered)
        for ask in moment.asked:
            if ask.ballot is not None:
                yield from self._concluded(moment, ask)

    def _concluded(self, moment: Moment, ask: Ask) -> Iterator[Moment]:
        """The asker waits no longer, with whichever answers it has got by then."""
        got = [(worker, answer) for asked, worker, answer in moment.answered if asked == ask]
        for answers in (dict(some) for count in range(len(got) + 1) for some in itertools.combinations(got, count)):
            if ask.members is None:
                step = weigh_promises(self.electorate, ask, answers)
                # A try goes on once: its ballot stands for one membership.
                gone_on = any(other.ballot == ask.ballot and other.members is not None for other in moment.asked)
                if isinstance(step, Ask) and not gone_on:
                    yield Moment(moment.voters, moment.asked | {step}, moment.answered)
            else:
                verdict = count_votes(self.electorate, ask, answers)
                if not isinstance(verdict, Wait):
                    yield Moment(moment.voters, moment.asked | {Ask(ask.generation, verdict)}, moment.answered)

    def _voter(self, moment: Moment, place: int) -> Voter:
        voter = Voter(self.electorate.workers[place], self.electorate)
        voter.chain, voter.promised, voter.accepted = moment.voters[place]  # type: ignore[assignment]
        return voter


def _memory(voter: Voter) -> tuple[object, ...]:
    return voter.chain, voter.promised, voter.accepted


def _put(voters: tuple[tuple[object, ...], ...], place: int, voter: Voter) -> tuple[tuple[object, ...], ...]:
    return (*voters[:place], _memory(voter), *voters[place + 1 :])


@pytest.mark.slow
def test_in_every_order_of_messages_and_crashes_at_most_one_membership_is_decided() -> None:
    outcomes: set[Chain] = set()
    for moment in Model(THREE, {"a": 1, "b": 1}).reachable():
        assert len(moment.decided) <= 1, moment
        outcomes |= moment.decided
    assert len(outcomes) > 1, "the order of events decides which one"
    assert all(len(chain[0]) == 2 for chain in outcomes)


def test_members_that_forgot_their_promises_would_decide_twice_which_is_why_a_worker_that_died_never_comes_back() -> (
    None
):
    assert any(len(moment.decided) > 1 for moment in Model(THREE, {"a": 1, "b": 1}, forgetful=True).reachable())


@dataclass
class Member:
    voter: Voter
    alive: bool = True
    attended: bool = False
    #: the sub-generation that it trains in, as a chain; None while it has no group
    group: Chain | None = None
    asking: Ask | None = None
    answers: dict[str, Answer] = field(default_factory=dict)


class Network:
    """Members of one generation over a network that loses, repeats, delays and reorders."""

    def __init__(self, size: int, chance: random.Random) -> None:
        self.electorate = Electorate(7, tuple(f"w{rank}" for rank in range(size)))
        self.members = {worker: Member(Voter(worker, self.electorate), group=()) for worker in self.electorate.workers}
        self.chance = chance
        self.asks: list[tuple[str, Ask]] = []
        self.answers: list[tuple[str, Ask, str, Answer]] = []
        self.decided: dict[int, Chain] = {0: ()}

    def step(self) -> None:
        """Something happens."""
        worker = self.chance.choice(self.electorate.workers)
        steps = [self.begin, self.conclude, self.leave, self.form, self.turn]
        deliveries = [self.deliver_ask] * 8 + [self.deliver_answer] * 8
        self.chance.choice([*steps, *deliveries])(worker)
        if self.chance.random() < 0.003:
            self.members[worker].alive = False
        self.check()

    def begin(self, worker: str) -> None:
        member = self.members[worker]
        if member.alive and not member.voter.left_out and member.group is None and member.asking is None:
            self.send(worker, member.voter.ask())

    def send(self, worker: str, ask: Ask) -> None:
        member = self.members[worker]
        member.asking, member.answers = ask, {worker: member.voter.hear(ask, member.attended)}
        self.asks += [(other, ask) for other in self.electorate.current(ask.chain) if other != worker]

    def deliver_ask(self, _worker: str) -> None:
        if self.asks:
            to, ask = self.chance.choice(self.asks)
            self.maybe_forget(self.asks, (to, ask))
            if self.members[to].alive:
                answer = self.members[to].voter.hear(ask, self.members[to].attended)
                if ask.ballot is not None:
                    self.answers.append((ask.ballot.worker, ask, to, answer))

    def deliver_answer(self, _worker: str) -> None:
        if self.answers:
            to, ask, sender, answer = self.chance.choice(self.answers)
            self.maybe_forget(self.answers, (to, ask, sender, answer))
            if self.members[to].asking == ask:
                self.members[to].answers[sender] = answer

    def maybe_forget(self, messages: list[T], message: T) -> None:
        if self.chance.random() < 0.7:
            messages.remove(message)

    def conclude(self, worker: str) -> None:
        member = self.members[worker]
        if member.alive and member.asking is not None:
            self.weigh(member)

    def weigh(self, member: Member) -> None:
        ask, answers, member.asking = member.asking, member.answers, None
        assert ask is not None
        for answer in answers.values():
            member.voter.learn(answer.chain)
        if ask.members is None:
            step = weigh_promises(self.electorate, ask, answers)
            if isinstance(step, Ask):
                self.send(member.voter.worker, step)
            return
        verdict = count_votes(self.electorate, ask, answers)
        if not isinstance(verdict, Wait):
            member.voter.learn(verdict)
            self.asks += [(other, Ask(ask.generation, verdict)) for other in self.electorate.workers]
            self.note(verdict)

    def note(self, chain: Chain) -> None:
        """A decision: the only one of its number, and one that follows the last."""
        before = self.decided.setdefault(len(chain), chain)
        assert before == chain, "one decision per number"
        shorter = self.decided[len(chain) - 1]
        assert chain[:-1] == shorter
        assert self.electorate.may_follow(shorter, chain[-1])

    def leave(self, worker: str) -> None:
        self.members[worker].group = None

    def form(self, worker: str) -> None:
        """A group is formed where all of its members meet, knowing of none that is newer."""
        chain = self.members[worker].voter.chain
        meeting = [self.members[other] for other in self.electorate.current(chain)]
        if all(member.alive and member.group is None and member.voter.chain == chain for member in meeting):
            for member in meeting:
                member.group = chain

    def turn(self, worker: str) -> None:
        """The scheduler answers this one, or does not any more."""
        self.members[worker].attended = self.chance.random() < 0.05

    def check(self) -> None:
        training = [
            chain
            for chain in {member.group for member in self.members.values() if member.group is not None}
            if all(self.members[worker].group == chain for worker in self.electorate.current(chain))
        ]
        assert len(training) <= 1, "two groups at once"

    def calm_try(self, worker: str) -> None:
        """One try with nothing lost but what crashed."""
        member = self.members[worker]
        self.begin(worker)
        for _ in range(2):
            if member.asking is not None:
                for other, asked in self.members.items():
                    if asked.alive and other in self.electorate.current(member.asking.chain):
                        member.answers[other] = asked.voter.hear(member.asking, attended=False)
                self.weigh(member)


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 7), st.integers(0, 2**32))
def test_random_faults_bring_neither_two_decisions_nor_two_groups_and_a_majority_goes_on_when_they_stop(
    size: int, seed: int
) -> None:
    network = Network(size, random.Random(seed))
    for _ in range(400):
        network.step()
    network.asks.clear()
    network.answers.clear()
    for member in network.members.values():
        member.attended, member.group, member.asking = False, None, None
    for _ in range(2 * size):
        for worker in network.electorate.workers:
            network.calm_try(worker)
    newest = network.decided[max(network.decided)]
    remaining = network.electorate.current(newest)
    alive = {worker for worker in remaining if network.members[worker].alive}
    assert alive == set(remaining) or not network.electorate.is_majority(len(alive))


def ask_all(voters: dict[str, Voter], ask: Ask, attended: str | None = None) -> dict[str, Answer]:
    return {worker: voter.hear(ask, worker == attended) for worker, voter in voters.items()}


def voters_of(electorate: Electorate, *workers: str) -> dict[str, Voter]:
    return {worker: Voter(worker, electorate) for worker in workers}


@pytest.mark.parametrize(
    ("size", "left", "verdict"),
    [
        (3, 2, None),
        (5, 3, None),
        (3, 1, Wait.MINORITY),
        (4, 2, Wait.MINORITY),
        (2, 1, Wait.MINORITY),
        (5, 2, Wait.MINORITY),
        (3, 3, Wait.COMPLETE),
    ],
)
def test_more_than_half_of_the_generation_goes_on_and_a_tie_waits(size: int, left: int, verdict: Wait | None) -> None:
    electorate = Electorate(1, tuple("abcdefg"[:size]))
    voters = voters_of(electorate, *"abcdefg"[:left])
    ask = voters["a"].ask()
    step = weigh_promises(electorate, ask, ask_all(voters, ask))
    if verdict is not None:
        assert step is verdict
        return
    assert isinstance(step, Ask)
    assert count_votes(electorate, step, ask_all(voters, step)) == (tuple(voters),)


def test_half_is_of_the_generation_and_not_of_those_who_went_on() -> None:
    electorate = Electorate(1, tuple("abcde"))
    voters = voters_of(electorate, *"abcd")
    for left in ("abcd", "abc", "ab"):
        for worker in set(voters) - set(left):
            del voters[worker]
        ask = voters["a"].ask()
        step = weigh_promises(electorate, ask, ask_all(voters, ask))
        if left == "ab":
            assert step is Wait.MINORITY
        else:
            assert isinstance(step, Ask)
            verdict = count_votes(electorate, step, ask_all(voters, step))
            assert not isinstance(verdict, Wait)
            for voter in voters.values():
                voter.learn(verdict)
    assert voters["b"].chain == (tuple("abcd"), tuple("abc"))


def test_nothing_is_decided_below_the_minimum_nor_while_the_scheduler_answers_a_member() -> None:
    electorate = Electorate(1, ("a", "b", "c"), least=3)
    voters = voters_of(electorate, "a", "b")
    ask = voters["a"].ask()
    assert weigh_promises(electorate, ask, ask_all(voters, ask)) is Wait.BELOW_MINIMUM
    voters = voters_of(THREE, "a", "b")
    ask = voters["a"].ask()
    assert weigh_promises(THREE, ask, ask_all(voters, ask, attended="b")) is Wait.ATTENDED


def test_who_was_left_out_learns_it_from_any_answer_and_has_no_say_any_more() -> None:
    voters = voters_of(THREE, "a", "b", "c")
    voters["b"].learn((("a", "b"),))
    ask = voters["c"].ask()
    answers = ask_all(voters, ask)
    assert weigh_promises(THREE, ask, answers) is Wait.BEHIND
    voters["c"].learn(answers["b"].chain)
    assert voters["c"].left_out
    assert not voters["c"].hear(voters["b"].ask(), attended=False).granted


def test_questions_and_answers_survive_the_way() -> None:
    voter = Voter("a", THREE)
    ask = voter.ask()
    accept = Ask(7, (), ask.ballot, ("a", "b"))
    for question in (ask, accept, Ask(7, (("a", "b"),))):
        assert Ask.decode(json.loads(json.dumps(question.encode()))) == question
        answer = voter.hear(question, attended=True)
        assert Answer.decode(json.loads(json.dumps(answer.encode()))) == answer
    granted = Voter("b", THREE).hear(accept, attended=False)
    assert granted.accepted == (ask.ballot, ("a", "b"))
    assert Answer.decode(json.loads(json.dumps(granted.encode()))) == granted


def test_a_sub_generation_meets_at_its_first_member_and_is_older_than_the_schedulers_next_list() -> None:
    endpoints, peers = {"a": "h:1", "b": "h:2", "c": "h:3"}, {"a": "h:4", "b": "h:5", "c": "h:6"}
    published = Membership(7, ("a", "b", "c"), "h:1", endpoints=endpoints, peers=peers, least=2)
    left = published.after((("b", "c"),))
    assert (left.name, left.workers, left.rendezvous, left.version) == ("7.1", ("b", "c"), "h:2", (7, 1))
    assert published.version < left.version < Membership(8, ("b",), None).version
    assert left.lost_since(published)
    assert Membership.parse(published.encode()) == published
    assert published.electorate == Electorate(7, ("a", "b", "c"), 2)
