"""An answer of the API server that is read piece by piece and has an end in time, however slowly it comes."""

from collections.abc import Callable, Iterator

import urllib3

_PIECE_BYTES = 64 * 1024


class Answer:
    """One response that is not read yet. urllib3's own limits count anew with every byte."""

    def __init__(self, response: urllib3.BaseHTTPResponse, until: float, monotonic: Callable[[], float]) -> None:
        """All of it has to come by `until`; urllib3 bounds the silence between two pieces."""
        self._response = response
        self._until = until
        self._monotonic = monotonic

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def reason(self) -> str:
        return self._response.reason or ""

    def pieces(self) -> Iterator[bytes]:
        """What comes, as it comes. Raises errors of urllib3, also if it is not over in time."""
        while piece := self._response.read1(_PIECE_BYTES):
            yield piece
            if self._monotonic() > self._until:
                raise urllib3.exceptions.TimeoutError("its answer does not end in time")

    def read(self) -> bytes:
        """All of it; the connection is free for other requests then. Raises errors of urllib3."""
        try:
            return b"".join(self.pieces())
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """End the iteration, from any thread. Raises `OSError`, `RuntimeError` or `ValueError` if it has ended."""
        self._response.shutdown()

    def close(self) -> None:
        self._response.close()
