"""Groups of requests that submit a job: those that arrive during a transaction share the next one.

So one durable commit, of which a disk does a few hundred per second, serves all the jobs that arrived meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from starlette.responses import Response

from scheduler.errors import StoreError
from scheduler.http.admission.owner import Submitter

#: Limit on the requests of one transaction, so that other writers never wait long.
GROUP_MAX = 100


@dataclass(frozen=True, slots=True)
class Submission:
    """A request that submits one job."""

    submitter: Submitter
    body: bytes
    #: The header Idempotency-Key.
    key: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, and the name of the job for the record of the request."""

    response: Response
    job: str


#: Answers requests, each with an answer or with what it is refused by.
Serve = Callable[[Sequence[Submission]], Sequence[Answer | Exception]]
_Waiting = tuple[Submission, "asyncio.Future[Answer]"]


class Submissions:
    """Serves submissions in groups. Used on the event loop; closed with the application."""

    def __init__(self, serve: Serve) -> None:
        """`serve` is called on a thread of its own."""
        self._serve = serve
        self._waiting: list[_Waiting] = []
        self._work: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="submissions")

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def submit(self, submission: Submission) -> Answer:
        """The answer. Raises what the request is refused by."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((submission, answered))
        if self._work is None:
            self._work = loop.create_task(self._serve_all())
        return await answered

    async def _serve_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
                asked = [submission for submission, _ in group]
                outcomes = await loop.run_in_executor(self._thread, self._outcomes, asked)
                for (_, answered), outcome in zip(group, outcomes, strict=True):
                    _tell(answered, outcome)
        finally:
            self._work = None

    def _outcomes(self, asked: Sequence[Submission]) -> Sequence[Answer | Exception]:
        """What becomes of each: an error that is not of the store is of one of them, and no matter of the others."""
        try:
            return self._serve(asked)
        except Exception as error:
            if len(asked) == 1 or isinstance(error, StoreError):
                return [error] * len(asked)
        return [outcome for each in asked for outcome in self._outcomes([each])]


def _tell(answered: "asyncio.Future[Answer]", outcome: Answer | Exception) -> None:
    if answered.done():  # its client may have gone
        return
    if isinstance(outcome, Exception):
        answered.set_exception(outcome)
    else:
        answered.set_result(outcome)
