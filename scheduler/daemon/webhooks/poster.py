"""POSTs to one receiver, each with one deadline for all of it: name, connection, headers and answer."""

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

from scheduler.daemon.webhooks.lookup import LookupLoop

if TYPE_CHECKING:
    import httpx

#: More of an answer is not read.
ANSWER_BYTES_MAX = 65536


class Poster:
    """Keeps its connection from one message to the next. Called by one thread at a time."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._runner: asyncio.Runner | None = None
        self._client: httpx.AsyncClient | None = None

    def post(self, body: bytes, headers: dict[str, str]) -> str | None:
        """Why the receiver has not taken it, in a line; None: it has."""
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=LookupLoop)
        return self._runner.run(self._post(body, headers))

    def close(self) -> None:
        """Let go of the receiver."""
        runner, self._runner = self._runner, None
        client, self._client = self._client, None
        if runner is not None:
            with runner:
                if client is not None:
                    runner.run(client.aclose())

    async def _post(self, body: bytes, headers: dict[str, str]) -> str | None:
        import httpx  # takes a while, and most daemons have no webhooks

        if self._client is None:
            # Neither proxies nor passwords of the daemon's environment.
            self._client = httpx.AsyncClient(timeout=None, trust_env=False)
        status = None
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
                await _drain(answer)
        except TimeoutError:
            error = f"no answer within {self._timeout_seconds:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as failed:
            error = _line(failed)
        if status is None:
            return error
        # It has told whether it has taken the event, whatever came of the rest of its answer.
        return None if 200 <= status < 300 else f"the receiver responded with status {status}"


async def _drain(answer: "httpx.Response") -> None:
    """Read a short answer, so that the connection can be used again; a long one is left alone."""
    read = 0
    async for chunk in answer.aiter_raw():
        read += len(chunk)
        if read > ANSWER_BYTES_MAX:
            return


def _line(error: BaseException) -> str:
    """What the error that lies under all others says, for those above it say less."""
    said = type(error).__name__
    below: BaseException | None = error
    while below is not None:
        said = _text(below) or said
        below = below.exceptions[0] if isinstance(below, BaseExceptionGroup) else below.__cause__ or below.__context__
    return said.partition("\n")[0]


def _text(error: BaseException) -> str:
    """As the system words it, for asyncio says of no connection why it failed."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return f"[Errno {error.errno}] {os.strerror(error.errno or 0)}"
    return str(error)
