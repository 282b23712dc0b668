"""Rate limits of callers, which are told apart by user or job, else by address.

A caller is a user, all users without a name together (they share one token), one job's workers, or an address without
a valid token. Each has a token bucket that fills at its rate, and a limit on its concurrent requests.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scheduler.config import HttpSettings
from scheduler.http.errors import ErrorCode, Refusal
from scheduler.model.ids import JobId

#: Size of a bucket, in time at the full rate, so that bursts pass.
BURST_SECONDS = 2.0
#: Requests of each worker per second, and concurrent ones: reports, a long poll, readers of shards.
WORKER_REQUESTS_PER_SECOND = 20.0
WORKER_REQUESTS_MAX = 8
#: Concurrent requests of a job besides those of its workers, and of an address without a token.
JOB_REQUESTS_MAX = 64
STRANGER_REQUESTS_MAX = 64
STRANGER_REQUESTS_PER_SECOND = 300.0
#: Limit on the concurrent requests of users without a name, and of each user with one, as shares of all connections.
USERS_SHARE = 0.5
USER_SHARE = 0.1
#: Limit on remembered callers; the least recently seen are dropped.
CALLERS_MAX = 10_000
KINDS = ("users", "workers", "others")


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request; with neither a job, an address nor a name: users without a name."""

    job: JobId | None = None
    address: str | None = None
    user: str | None = None

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.job is not None:
            return "workers"
        return "users" if self.address is None else "others"

    def __str__(self) -> str:
        if self.job is not None:
            return f"the worker token of job {self.job}"
        if self.address is not None:
            return f"no valid token from {self.address}"
        return "the token of users" if self.user is None else f"the name of {self.user}"


@dataclass(slots=True)
class _Account:
    requests: float
    filled_at: float
    under_way: int = 0


class Throttle:
    """Admits requests. Used on the event loop only."""

    def __init__(self, settings: HttpSettings, workers: Callable[[JobId], int]) -> None:
        """`workers`: returns a job's number of live workers."""
        self._settings = settings
        self._workers = workers
        self._accounts: OrderedDict[Caller, _Account] = OrderedDict()
        #: Requests that were refused, by kind of caller.
        self.refused = dict.fromkeys(KINDS, 0)

    @contextmanager
    def admitted(self, caller: Caller, now: float) -> Iterator[None]:
        """Admit a request for the duration of the context. Raises `Refusal` (429) beyond the caller's limits."""
        rate, under_way_max = self._limits(caller)
        account = self._account(caller, rate, now)
        if account.under_way >= under_way_max:
            raise self._too_many(caller, f"{under_way_max} requests with {caller} are under way already")
        if account.requests < 1.0:
            raise self._too_many(caller, f"at most {rate:g} a second are answered with {caller}")
        account.requests -= 1.0
        account.under_way += 1
        try:
            yield
        finally:
            account.under_way -= 1

    def _limits(self, caller: Caller) -> tuple[float, int]:
        """Limits on requests per second and on concurrent requests."""
        if caller.address is not None:
            return STRANGER_REQUESTS_PER_SECOND, STRANGER_REQUESTS_MAX
        if caller.job is None:
            share = USERS_SHARE if caller.user is None else USER_SHARE
            return self._settings.requests_per_second_max, max(1, int(self._settings.connections_max * share))
        workers = self._workers(caller.job)
        rate = self._settings.job_requests_per_second_max + workers * WORKER_REQUESTS_PER_SECOND
        return rate, JOB_REQUESTS_MAX + workers * WORKER_REQUESTS_MAX

    def _account(self, caller: Caller, rate: float, now: float) -> _Account:
        account = self._accounts.pop(caller, None)
        full = rate * BURST_SECONDS
        if account is None:
            account = _Account(full, now)
            if len(self._accounts) >= CALLERS_MAX:
                self._accounts.popitem(last=False)
        account.requests = min(full, account.requests + max(0.0, now - account.filled_at) * rate)
        account.filled_at = now
        self._accounts[caller] = account
        return account

    def _too_many(self, caller: Caller, why: str) -> Refusal:
        self.refused[caller.kind] += 1
        return Refusal(429, ErrorCode.TOO_MANY, f"too many requests: {why}", headers={"retry-after": "1"})
