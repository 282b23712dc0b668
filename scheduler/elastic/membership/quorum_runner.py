"""This worker's part in going on without lost members while the scheduler is away; the rules are in `quorum`.

Standard library only.
"""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from scheduler.elastic.membership.agent import Agent
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.peers import ANSWER_SECONDS, PeerServer, ask_all
from scheduler.elastic.membership.quorum import Answer, Ask, Chain, Voter, Wait, count_votes, weigh_promises

_LOG = logging.getLogger("scheduler.elastic")
_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 0.5
#: Members ask in rank order, this far apart, so that mostly one asks; no member delays longer than the maximum.
_TURN_SECONDS = 0.2
_TURNS_SECONDS_MAX = 2.0
#: Whoever promised another member a ballot lets it come to an end: asking takes long where the lost are silent.
_COURTED_SECONDS = ANSWER_SECONDS + 1.0
#: Generations of which it is remembered what was promised.
_VOTERS_MAX = 16
#: With these only the scheduler can go on.
_LASTING = frozenset({Wait.MINORITY, Wait.BELOW_MINIMUM})


class Agreement:
    """Answers peers at all times; asks them where this worker has no group and the scheduler answers nobody."""

    def __init__(self, agent: Agent, address: str, after_seconds: float) -> None:
        """`after_seconds`: how long the scheduler must have given no answer."""
        self._agent = agent
        self._token = agent.environment.token
        self._after_seconds = after_seconds
        self._server = PeerServer(address, self._token, self._hear)
        self.port = self._server.port
        self.contact = self._server.contact
        self._lock = threading.Lock()
        #: the scheduler's newest list, and what was agreed on since
        self._list: Membership | None = None
        self._voter: Voter | None = None
        #: by generation: what was promised is kept also where a list turns out not to be the scheduler's
        self._voters: dict[int, Voter] = {}
        self._courted_at = float("-inf")
        self._not_before = float("-inf")
        self._told: Wait | None = None
        #: highest round seen in a ballot
        self._round = 0

    def start(self) -> None:
        """Tells the scheduler where peers find this worker, and starts the threads."""
        self._agent.update({"peer": self.contact})
        self._server.start()
        threading.Thread(target=self._run, name="agreement", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                voter, newest = self._current()
            if voter is not None and newest is not None and self._is_due(voter):
                try:
                    self._try(voter, newest)
                except Exception:
                    _LOG.exception("generation %d: this try to agree failed; another one follows", newest.generation)
                    self._not_before = time.monotonic() + _RETRY_SECONDS

    def _current(self) -> tuple[Voter | None, Membership | None]:
        """The voter of the scheduler's newest list; under the lock."""
        newest = self._agent.membership()
        if newest is not None and newest.sub == 0:
            if self._list is None or newest.generation != self._list.generation:
                made = Voter(self._agent.worker, newest.electorate)
                self._voter = self._voters.setdefault(newest.generation, made)
                while len(self._voters) > _VOTERS_MAX:
                    del self._voters[next(iter(self._voters))]
            self._list = newest
        return self._voter, self._list

    def _is_due(self, voter: Voter) -> bool:
        forming_seconds = self._agent.forming_seconds()
        if forming_seconds is None or voter.left_out:
            self._told = None
            return False
        now = time.monotonic()
        if now < max(self._not_before, self._courted_at + _COURTED_SECONDS):
            return False
        ready_seconds = min(forming_seconds, self._agent.silent_seconds() - self._after_seconds)
        return ready_seconds >= self._turn_seconds(voter)

    def _turn_seconds(self, voter: Voter) -> float:
        return min(_TURN_SECONDS * voter.members.index(voter.worker), _TURNS_SECONDS_MAX)

    def _try(self, voter: Voter, newest: Membership) -> None:
        """One try to agree on the next sub-generation."""
        with self._lock:
            ask = voter.ask(self._round)
        verdict = self._ask_for_decision(voter, newest, ask)
        if isinstance(verdict, Wait):
            self._not_before = time.monotonic() + _RETRY_SECONDS + self._turn_seconds(voter)
            if verdict is not self._told:
                level = logging.WARNING if verdict in _LASTING else logging.INFO
                _LOG.log(level, "generation %d waits: %s", newest.generation, verdict.value)
                self._told = verdict
            return
        before = voter.members
        self._learn(voter, verdict)
        self._exchange(newest, before, Ask(newest.generation, verdict))

    def _ask_for_decision(self, voter: Voter, newest: Membership, ask: Ask) -> Chain | Wait:
        asked = voter.electorate.current(ask.chain)
        step = weigh_promises(voter.electorate, ask, self._ask_members(voter, newest, asked, ask))
        if isinstance(step, Wait):
            return step
        return count_votes(voter.electorate, step, self._ask_members(voter, newest, asked, step))

    def _ask_members(self, voter: Voter, newest: Membership, asked: tuple[str, ...], ask: Ask) -> Mapping[str, Answer]:
        """The answers of all who give one, this worker's own among them."""
        with self._lock:
            answers = {voter.worker: voter.hear(ask, self._is_attended())}
        answers |= self._exchange(newest, asked, ask)
        for answer in answers.values():
            if answer.promised is not None:
                self._round = max(self._round, answer.promised.round)
            if answer.generation == newest.generation:
                self._learn(voter, answer.chain)
        return answers

    def _exchange(self, newest: Membership, asked: tuple[str, ...], ask: Ask) -> dict[str, Answer]:
        """Both sides take over the newer of their lists."""
        contacts = {
            worker: newest.peers[worker] for worker in asked if worker != self._agent.worker and worker in newest.peers
        }
        answers = {}
        question = {"list": newest.to_data(), "ask": ask.encode()}
        for worker, data in ask_all(contacts, self._token, question).items():
            with suppress(ValueError, KeyError, TypeError):  # no answer of a member
                answers[worker] = Answer.decode(data["answer"])
                self._agent.take_list(Membership.decode(data["list"]))
        return answers

    def _hear(self, question: Any) -> Mapping[str, Any] | None:
        """Answers a peer."""
        ask = Ask.decode(question["ask"])
        self._agent.take_list(Membership.decode(question["list"]))
        with self._lock:
            voter, newest = self._current()
            if voter is None or newest is None:
                return None
            known = voter.chain
            answer = voter.hear(ask, self._is_attended())
            if answer.granted:
                self._courted_at = time.monotonic()
            is_news = voter.chain != known
        if is_news:
            self._follow(voter, newest)
        return {"list": newest.to_data(), "answer": answer.encode()}

    def _is_attended(self) -> bool:
        """Whether the scheduler answers this worker: then it is for the scheduler to say who is lost."""
        return self._agent.silent_seconds() < self._after_seconds

    def _learn(self, voter: Voter, chain: Chain) -> None:
        with self._lock:
            is_news = voter.learn(chain) and voter is self._voter
            newest = self._list
        if is_news and newest is not None:
            self._follow(voter, newest)

    def _follow(self, voter: Voter, newest: Membership) -> None:
        """Goes with what was decided."""
        membership = newest.after(voter.chain)
        lost = [worker for worker in newest.workers if worker not in membership.workers]
        if voter.left_out:
            _LOG.warning("the other workers continued without this one as generation %s: exiting", membership.name)
            self._agent.end()
        _LOG.warning(
            "the scheduler is unreachable: generation %s continues without %s", membership.name, ", ".join(lost)
        )
        agreed = {"generation": membership.generation, "sub": membership.sub, "lost": lost}
        self._agent.update({"agreed": agreed}, at_once=True)
        self._agent.take_list(membership)
