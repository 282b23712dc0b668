"""Readers of a job's shards over HTTP, many in one process: they only take shards and report them done.

`shard_readers STATE_DIR TOKEN JOB PART PARTS BATCH RESULT [SECONDS]` reads for each live worker whose ordinal is PART
modulo PARTS until all is done, or for SECONDS; RESULT gets one byte per shard, how often it was accepted as done, and
the last line of stdout is JSON: calls, shards, first and last answer.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.5
RETRY_SECONDS = 0.05
PATIENCE_SECONDS = 30.0


class Readers:
    def __init__(self, state_dir: Path, token: str, job: int, part: int, parts: int, batch: int) -> None:
        self._state_dir, self._token, self._job, self._batch = state_dir, token, job, batch
        self._part, self._parts = part, parts
        self.accepted = bytearray()
        self.calls = self.shards = 0
        self.first_at = self.last_at = 0.0
        self.over = asyncio.Event()
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def run(self, seconds: float | None) -> None:
        watch = asyncio.create_task(self._watch())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        for task in (watch, *self._reading.values()):
            task.cancel()
        await asyncio.gather(watch, *self._reading.values(), return_exceptions=True)

    async def _watch(self) -> None:
        """Readers for workers that have come."""
        connection = Connection(self._state_dir, self._token)
        while True:
            status, job = await connection.request("GET", f"/v1/jobs/{self._job}")
            if status == 200:
                total = job["data_progress"]["total"]
                self.accepted.extend(bytes(total - len(self.accepted)))
                for worker in job["live_workers"]:
                    name = worker["id"]
                    mine = int(name.rpartition("-")[2]) % self._parts == self._part
                    if mine and worker["state"] == "READY" and name not in self._reading:
                        self._reading[name] = asyncio.create_task(self._read(name))
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(self, worker: str) -> None:
        connection = Connection(self._state_dir, self._token)
        path = f"/v1/jobs/{self._job}/workers/{worker}/shards"
        held: list[list[int]] = []
        sequence = 0
        while True:
            sequence += 1
            call = {"reader": "r", "sequence": sequence, "done": held, "want": self._batch}
            status, answer = await connection.request("POST", path, call)
            if status == 409:
                return  # its worker was killed
            if status != 200:
                raise RuntimeError(f"{status}: {answer}")
            self._count(held, answer["refused"])
            held = answer["held"]
            if answer["end"]:
                self.over.set()
                return
            if not held:
                await asyncio.sleep(RETRY_SECONDS)

    def _count(self, done: list[list[int]], refused: list[list[int]]) -> None:
        now = time.monotonic()
        self.calls, self.first_at, self.last_at = self.calls + 1, self.first_at or now, now
        for spans, step in ((done, 1), (refused, -1)):
            for first, end in spans:
                self.shards += step * (end - first)
                for position in range(first, end):
                    self.accepted[position] += step


class Connection:
    """HTTP over one kept-alive connection; a request that finds the daemon away is repeated."""

    def __init__(self, state_dir: Path, token: str) -> None:
        self._state_dir, self._token = state_dir, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                status, answer = await self._once(method, path, body)
                if status != 503:
                    return status, answer
            except (OSError, asyncio.IncompleteReadError, ValueError):
                self._streams = None
            if time.monotonic() > until:
                raise RuntimeError("the daemon does not come back")
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self._streams is None:
            url = json.loads((self._state_dir / "daemon.json").read_text())["url"]
            host, _, port = url.removeprefix("http://").partition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self._token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def main() -> None:
    state_dir, token, job, part, parts, batch, result, *limit = sys.argv[1:]
    readers = Readers(Path(state_dir), token, int(job), int(part), int(parts), int(batch))
    await readers.run(float(limit[0]) if limit else None)
    Path(result).write_bytes(readers.accepted)
    told = {"calls": readers.calls, "shards": readers.shards, "first": readers.first_at, "last": readers.last_at}
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
