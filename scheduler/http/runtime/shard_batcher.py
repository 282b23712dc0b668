"""Batches of readers' calls: calls that arrive during a transaction share the next one.

So one durable commit, of which a disk does a few hundred per second, serves all the calls that arrived meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from scheduler.errors import StoreError, UserError
from scheduler.model.ids import JobId
from scheduler.store.records import Exchanged, ShardsAsked, ShardsGiven
from scheduler.store.sqlstore import SqlStore

#: Limits on the calls of one transaction, so that other writers never wait long.
GROUP_MAX = 500
GROUP_SECONDS_MAX = 0.2

_Waiting = tuple[ShardsAsked, "asyncio.Future[ShardsGiven | UserError]"]


class ShardBatcher:
    """Batches calls. Used on the event loop; closed with the application."""

    def __init__(
        self,
        store: SqlStore,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        heard_since: Callable[[], float],
        tell: Callable[[frozenset[JobId]], None],
    ) -> None:
        """`heard_since`: when the daemon last stood still; `tell` is called with jobs that have new events."""
        self._store = store
        self._now = now
        self._monotonic = monotonic
        self._daemon_heard_since = heard_since
        self._tell = tell
        self._since = now()
        self._waiting: list[_Waiting] = []
        self._work: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shards")
        #: Number of answered calls.
        self.answered = 0
        #: Shards given, done, failed and returned, by the effect of calls, not by their content.
        self.shards: Counter[str] = Counter()

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def heard_since(self) -> float:
        """Since when the silence of readers counts; unix seconds."""
        return max(self._since, self._daemon_heard_since())

    async def exchange(self, asked: ShardsAsked) -> ShardsGiven:
        """The result of the call. Raises `UserError` for one that is refused, `StoreError` while the store is away."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[ShardsGiven | UserError] = loop.create_future()
        self._waiting.append((asked, answered))
        if self._work is None:
            self._work = loop.create_task(self._serve())
        outcome = await answered
        if isinstance(outcome, UserError):
            raise outcome
        return outcome

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            group: list[_Waiting] = []
            while group or self._waiting:
                if not group:  # what is left of a group comes before all that arrived since
                    group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
                try:
                    exchanged = await loop.run_in_executor(self._thread, self._exchange, [asked for asked, _ in group])
                except Exception as error:
                    self._refuse(group, error)
                    group = []
                else:
                    group = self._answer(group, exchanged)
        finally:
            self._work = None

    def _exchange(self, asked: list[ShardsAsked]) -> Exchanged:
        until = self._monotonic() + GROUP_SECONDS_MAX
        return self._store.exchange_shards(asked, self._now(), self.heard_since(), lambda: self._monotonic() < until)

    def _answer(self, group: list[_Waiting], exchanged: Exchanged) -> list[_Waiting]:
        """Tell what came of the calls; those that are still to make."""
        left: list[_Waiting] = []
        for (asked, answered), outcome in zip(group, exchanged.outcomes, strict=True):
            if outcome is None:
                left.append((asked, answered))
                continue
            if not isinstance(outcome, UserError):
                self.answered += 1
                self.shards.update(outcome.answer.moved._asdict())
            if not answered.done():  # its client may have gone
                answered.set_result(outcome)
        if exchanged.told:
            self._tell(exchanged.told)
        return left

    def _refuse(self, group: list[_Waiting], error: Exception) -> None:
        if isinstance(error, StoreError):
            self._since = self._now()  # renewals were lost: the readers were not silent
        for _, answered in group:
            if not answered.done():
                answered.set_exception(error)
