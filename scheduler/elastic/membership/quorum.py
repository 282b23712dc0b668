"""How the workers of a generation agree to go on without lost ones while the scheduler is away. Pure: no I/O, no clock.

Sub-generation g.k holds who is left of generation g after the k-th such agreement; g.0 is the scheduler's own list.
Each is decided once, by Paxos among the members of generation g, whose endpoints all know from that list:

1. A member that has no group, and whom the scheduler has not answered for some seconds, asks all of g.(k-1) to promise
   it a ballot. Who promises takes no lower ballot any more, and tells what it accepted before.
2. With promises of more than half of generation g's *own* members (not of those left), it asks them to accept: what
   one of them accepted under the highest ballot, else the membership of all who promised. As many acceptances decide.
3. It tells the others; who missed that learns it from any answer later on.

So nothing is decided twice; every membership is more than half of generation g, so any two have a member in common,
and that one is in one group at a time: two groups are impossible. Memberships only shrink. A minority waits for the
scheduler, and so does a tie: 2 of 4, 1 of 2. Promises live in the worker's memory: one that died never comes back.

Whom the scheduler still answers promises nothing, and the scheduler's next list, g+1, is newer than every g.k.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

#: Workers in rank order.
Members = tuple[str, ...]
#: What is decided of a generation: the memberships of its sub-generations 1, 2, ...
Chain = tuple[Members, ...]


class Wait(Enum):
    """Why a round brought no decision."""

    ATTENDED = "another member can reach the scheduler"
    BEHIND = "another member knows more"
    CONTENDED = "another member is asking too"
    COMPLETE = "all members respond: none is lost"
    MINORITY = "at most half of the members of the generation respond"
    BELOW_MINIMUM = "fewer members than the minimum of the job respond"


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """Numbers one member's try."""

    round: int
    worker: str


@dataclass(frozen=True, slots=True)
class Electorate:
    """One generation as the scheduler published it."""

    generation: int
    workers: Members
    #: the job's minimum, as the list said that this member has: nobody proposes fewer
    least: int = 1

    def is_majority(self, count: int) -> bool:
        """Whether `count` members are more than half of the generation."""
        return 2 * count > len(self.workers)

    def current(self, chain: Chain) -> Members:
        """The membership of the newest sub-generation."""
        return chain[-1] if chain else self.workers

    def may_follow(self, chain: Chain, members: Members) -> bool:
        """Whether this membership may be the next one."""
        before = self.current(chain)
        smaller = len(members) < len(before) and members == tuple(worker for worker in before if worker in members)
        return smaller and self.is_majority(len(members))


@dataclass(frozen=True, slots=True)
class Ask:
    """What one member asks the others about the sub-generation after `chain`."""

    generation: int
    chain: Chain
    #: None: nothing is asked, the chain is told
    ballot: Ballot | None = None
    #: None: a promise is asked for; else that this membership be accepted
    members: Members | None = None

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "generation": self.generation,
            "chain": self.chain,
            "ballot": _ballot_to_data(self.ballot),
            "members": self.members,
        }

    @classmethod
    def decode(cls, data: Mapping[str, Any]) -> "Ask":
        """The inverse; ValueError where it is not that."""
        with _decoding("question", data):
            members = data["members"]
            return cls(
                int(data["generation"]),
                _chain_of(data["chain"]),
                _ballot_of(data["ballot"]),
                None if members is None else _members_of(members),
            )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member answers."""

    generation: int
    chain: Chain
    granted: bool = False
    #: whether the scheduler answers this member
    attended: bool = False
    #: highest ballot promised for the sub-generation after `chain`
    promised: Ballot | None = None
    #: what was accepted for it, and under which ballot
    accepted: tuple[Ballot, Members] | None = None

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        accepted = None if self.accepted is None else (_ballot_to_data(self.accepted[0]), self.accepted[1])
        return {
            "generation": self.generation,
            "chain": self.chain,
            "granted": self.granted,
            "attended": self.attended,
            "promised": _ballot_to_data(self.promised),
            "accepted": accepted,
        }

    @classmethod
    def decode(cls, data: Mapping[str, Any]) -> "Answer":
        """The inverse; ValueError where it is not that."""
        with _decoding("answer", data):
            accepted = None
            if data["accepted"] is not None:
                ballot, members = data["accepted"]
                accepted = Ballot(int(ballot[0]), str(ballot[1])), _members_of(members)
            return cls(
                int(data["generation"]),
                _chain_of(data["chain"]),
                bool(data["granted"]),
                bool(data["attended"]),
                _ballot_of(data["promised"]),
                accepted,
            )


class Voter:
    """What one member knows and has promised; of one generation."""

    def __init__(self, worker: str, electorate: Electorate) -> None:
        self.worker = worker
        self.electorate = electorate
        self.chain: Chain = ()
        self.promised: Ballot | None = None
        self.accepted: tuple[Ballot, Members] | None = None

    @property
    def members(self) -> Members:
        """The newest membership known to be decided."""
        return self.electorate.current(self.chain)

    @property
    def left_out(self) -> bool:
        """Whether the others went on without this one."""
        return self.worker not in self.members

    def learn(self, chain: Chain) -> bool:
        """Takes over what was decided; True where that is news."""
        if len(chain) <= len(self.chain):
            return False
        self.chain, self.promised, self.accepted = chain, None, None
        return True

    def ask(self, above: int = 0) -> Ask:
        """The first question of a try: for promises, in a round above this and above what was promised."""
        promised = self.promised.round if self.promised is not None else 0
        ballot = Ballot(1 + max(above, promised), self.worker)
        return Ask(self.electorate.generation, self.chain, ballot)

    def hear(self, ask: Ask, attended: bool) -> Answer:
        """Answers another member, or this one itself. `attended`: the scheduler answers this member."""
        if ask.generation == self.electorate.generation:
            self.learn(ask.chain)
            if not attended and self._takes(ask):
                self.promised = ask.ballot
                if ask.ballot is not None and ask.members is not None:
                    self.accepted = ask.ballot, ask.members
                return self._answer(granted=True)
        return replace(self._answer(granted=False), attended=attended)

    def _takes(self, ask: Ask) -> bool:
        if ask.ballot is None or len(ask.chain) < len(self.chain):
            return False
        if self.left_out or ask.ballot.worker not in self.members:
            return False
        if ask.members is not None and not self.electorate.may_follow(self.chain, ask.members):
            return False
        return self.promised is None or ask.ballot >= self.promised

    def _answer(self, granted: bool) -> Answer:
        generation = self.electorate.generation
        return Answer(generation, self.chain, granted, promised=self.promised, accepted=self.accepted)


def weigh_promises(electorate: Electorate, ask: Ask, answers: Mapping[str, Answer]) -> Ask | Wait:
    """What to ask for acceptance of after this question for promises; `answers` by worker, of those that gave one."""
    standoff = _standoff(electorate, ask, answers)
    if standoff is not None:
        return standoff
    accepted = [answer.accepted for answer in answers.values() if answer.accepted is not None]
    if accepted:
        return replace(ask, members=max(accepted)[1])
    before = electorate.current(ask.chain)
    members = tuple(worker for worker in before if worker in answers)
    if members == before:
        return Wait.COMPLETE
    if len(members) < electorate.least:
        return Wait.BELOW_MINIMUM
    return replace(ask, members=members)


def count_votes(electorate: Electorate, ask: Ask, answers: Mapping[str, Answer]) -> Chain | Wait:
    """What is decided after this question for acceptance."""
    granted = sum(_is_granted(ask, answer) for answer in answers.values())
    if electorate.is_majority(granted) and ask.members is not None:
        return (*ask.chain, ask.members)
    return _standoff(electorate, ask, answers) or Wait.CONTENDED


def _standoff(electorate: Electorate, ask: Ask, answers: Mapping[str, Answer]) -> Wait | None:
    """Who answers without granting is not lost: nothing may be decided without it, only later or by somebody else."""
    refusals = [answer for answer in answers.values() if not _is_granted(ask, answer)]
    if any(answer.attended for answer in refusals):
        return Wait.ATTENDED
    if any((answer.generation, answer.chain) != (ask.generation, ask.chain) for answer in refusals):
        return Wait.BEHIND
    if refusals:
        return Wait.CONTENDED
    return None if electorate.is_majority(len(answers)) else Wait.MINORITY


def _is_granted(ask: Ask, answer: Answer) -> bool:
    return answer.granted and (answer.generation, answer.chain, answer.promised) == (
        ask.generation,
        ask.chain,
        ask.ballot,
    )


@contextmanager
def _decoding(what: str, data: Any) -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, OverflowError) as error:
        raise ValueError(f"no {what} of a member: {str(data)[:200]!r}") from error


def _ballot_to_data(ballot: Ballot | None) -> tuple[int, str] | None:
    return None if ballot is None else (ballot.round, ballot.worker)


def _ballot_of(data: Any) -> Ballot | None:
    return None if data is None else Ballot(int(data[0]), str(data[1]))


def _members_of(data: Any) -> Members:
    return tuple(str(worker) for worker in data)


def _chain_of(data: Any) -> Chain:
    return tuple(_members_of(members) for members in data)
