"""A program for tests with a fixed group: workers add numbers up on parameter servers, over plain sockets.

`python tests/servers.py STORY COUNT`: each worker adds 1 to every server COUNT times. All of them write lines into
STORY: `done` by a worker, `down TOTAL` by a server that was asked to stop.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

CONNECT_SECONDS_MAX = 120.0


def main(story: Path, count: int) -> None:
    hosts = [host.rpartition(":") for host in os.environ["SCHED_FIXED_HOSTS"].split(",")]
    if os.environ["SCHED_ROLE"] == "fixed":
        rank = int(os.environ["RANK"])
        assert int(os.environ["WORLD_SIZE"]) == len(hosts)
        serve(int(hosts[rank][2]), story)
    else:
        work([(host, int(port)) for host, _, port in hosts], count)
        tell(story, "done")


def serve(port: int, story: Path) -> None:
    """Answer each line `n` with the sum so far, one client after the other, until SIGTERM."""
    total = 0

    def stop(*_: object) -> None:
        tell(story, f"down {total}")
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    with socket.create_server(("", port)) as server:
        while True:
            client, _ = server.accept()
            with client, client.makefile("rw") as stream:
                for line in stream:
                    total += int(line)
                    stream.write(f"{total}\n")
                    stream.flush()


def work(servers: list[tuple[str, int]], count: int) -> None:
    for _ in range(count):
        for address in servers:
            with connected(address) as client, client.makefile("rw") as stream:
                stream.write("1\n")
                stream.flush()
                assert int(stream.readline()) > 0


def connected(address: tuple[str, int]) -> socket.socket:
    """A server's process runs before a worker's does, and listens a moment later."""
    until = time.monotonic() + CONNECT_SECONDS_MAX
    while True:
        try:
            return socket.create_connection(address, timeout=CONNECT_SECONDS_MAX)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def tell(story: Path, line: str) -> None:
    with story.open("a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
