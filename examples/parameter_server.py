"""Asynchronous training with parameter servers: workers come, go and die, and each shard's gradient counts once.

The job's fixed group holds an embedding of each (pixel, value) of the handwritten digits, each server its part of the
rows. A worker takes a shard, pulls the rows that it needs, pushes their gradient, and waits for nobody.

A push names its shard's position. A server stores it with the rows before it answers, and leaves out what it has
already: a shard that is dealt again, since its worker died between the push and its report, changes nothing twice. What
the queue counts as done is in the rows, also after the servers have died and started again.

    sched submit examples/parameter_server.yaml          # two servers, one to four workers
    python -m examples.parameter_server out --alone 30   # alone, without a scheduler
    python -m examples.parameter_server out --test       # print the quality of the model
"""

import argparse
import os
import threading
import time
from collections.abc import Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch
from torch.nn.functional import cross_entropy

from examples.digits import TEST_SAMPLES, load_digits
from scheduler import elastic

PIXELS, VALUES, CLASSES = 64, 17, 10
RATE = 0.05
EPOCHS_ALONE = 10
CONNECT_SECONDS_MAX = 60.0
#: "Replace me": it has not failed.
EXIT_REPLACE = 65


class Server(Protocol):
    """A part of the rows, here or elsewhere; rows are numbered from 0 within it."""

    def pull(self, rows: numpy.ndarray) -> numpy.ndarray:
        """What they are now."""

    def push(self, position: int, rows: numpy.ndarray, gradients: numpy.ndarray) -> None:
        """Steps against a shard's gradients, unless that was done for this position before."""


class Table:
    """The rows themselves, in a file that is written whole at each push; a large one would be written as a log."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows = numpy.zeros((rows, CLASSES), numpy.float32)
        #: Positions of the shards that are in the rows.
        self.applied = numpy.zeros(0, numpy.int64)
        if path.exists():
            with numpy.load(path) as stored:
                self.rows, self.applied = stored["rows"], stored["applied"]

    def pull(self, rows: numpy.ndarray) -> numpy.ndarray:
        """See `Server`."""
        with self._lock:
            return self.rows[rows]

    def push(self, position: int, rows: numpy.ndarray, gradients: numpy.ndarray) -> None:
        """See `Server`."""
        with self._lock:
            if position in self.applied:
                print(f"shard {position} is in already", flush=True)
                return
            stepped, applied = self.rows.copy(), numpy.append(self.applied, position)
            stepped[rows] -= RATE * gradients
            partial = self._path.with_suffix(".partial.npz")
            numpy.savez(partial, rows=stepped, applied=applied)
            partial.rename(self._path)
            # Only now: where the disk refuses, the shard is not in, and is dealt again.
            self.rows, self.applied = stepped, applied


class Remote:
    """A server of the fixed group. What is sent is pickled, so both ends prove that they know the job's token."""

    def __init__(self, address: str, token: bytes) -> None:
        host, _, port = address.rpartition(":")
        until = time.monotonic() + CONNECT_SECONDS_MAX
        while True:
            try:
                self._connection = Client((host, int(port)), authkey=token)
                return
            except ConnectionRefusedError:
                # Its process runs, and listens once it has imported what it needs.
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def pull(self, rows: numpy.ndarray) -> numpy.ndarray:
        """See `Server`."""
        return self._call("pull", rows)

    def push(self, position: int, rows: numpy.ndarray, gradients: numpy.ndarray) -> None:
        """See `Server`."""
        self._call("push", position, rows, gradients)

    def _call(self, *request: Any) -> Any:
        try:
            self._connection.send(request)
            return self._connection.recv()
        except (EOFError, OSError) as error:
            # The fault of neither this worker nor its shard: the scheduler starts the job again as a whole.
            print(f"lost a parameter server: {error or 'connection closed'}", flush=True)
            raise SystemExit(EXIT_REPLACE) from None


def serve(table: Table, port: int, token: bytes) -> None:
    """Until it is killed, also when it is asked to stop: all that it has answered is stored."""
    with Listener(("", port), backlog=64, authkey=token) as listener:
        while True:
            try:
                connection = listener.accept()
            except (AuthenticationError, EOFError, OSError) as error:
                print(f"rejected a connection: {error}", flush=True)
                continue
            threading.Thread(target=answer, args=(table, connection), daemon=True).start()


def answer(table: Table, connection: Connection) -> None:
    """One worker's calls, until it has gone."""
    with connection:
        try:
            while True:
                call, *arguments = connection.recv()
                connection.send(table.pull(*arguments) if call == "pull" else table.push(*arguments))
        except (EOFError, ConnectionError):
            return
        except OSError as error:  # the disk refused a push: without an answer its shard is dealt again
            print(f"cannot store the rows: {error}", flush=True)


def train(shards: elastic.ShardQueue, servers: Sequence[Server], shard_seconds: float) -> None:
    """Does shards until all of the data is done."""
    images, labels = load_digits()
    rows, targets = rows_of(images[TEST_SAMPLES:]), labels[TEST_SAMPLES:]
    for shard in shards:
        ends_at = time.monotonic() + shard_seconds
        part = shard.part_of(len(targets))
        needed, places = rows[part.start : part.stop].unique(return_inverse=True)
        embedded = pull(servers, needed).requires_grad_()
        loss = cross_entropy(embedded[places].sum(dim=1), targets[part.start : part.stop])
        loss.backward()
        # Stands for the time that a larger model would compute.
        time.sleep(max(0.0, ends_at - time.monotonic()))
        push(servers, shard.position, needed, embedded.grad)
        print(f"shard {shard.position}: loss {loss.item():.4f}", flush=True)


def rows_of(images: torch.Tensor) -> torch.Tensor:
    """The row of each pixel's value: images × 64."""
    return (images * (VALUES - 1)).round().long() + torch.arange(PIXELS) * VALUES


def pull(servers: Sequence[Server], rows: torch.Tensor) -> torch.Tensor:
    """These rows: row r lies on server r modulo their number."""
    found = torch.empty(len(rows), CLASSES)
    for place, server in enumerate(servers):
        mine = rows % len(servers) == place
        found[mine] = torch.from_numpy(server.pull((rows[mine] // len(servers)).numpy()))
    return found


def push(servers: Sequence[Server], position: int, rows: torch.Tensor, gradients: torch.Tensor) -> None:
    """To each server its part, and to each that there was a shard."""
    for place, server in enumerate(servers):
        mine = rows % len(servers) == place
        server.push(position, (rows[mine] // len(servers)).numpy(), gradients[mine].numpy())


def tables(directory: Path, count: int) -> list[Table]:
    """Where the rows are stored, each server's in a file of its own."""
    rows = PIXELS * VALUES
    return [Table(directory / f"server-{place}.npz", len(range(place, rows, count))) for place in range(count)]


def test(directory: Path) -> None:
    """Prints how good the stored rows are on images that were not trained on."""
    images, labels = load_digits()
    rows, targets = rows_of(images[:TEST_SAMPLES]), labels[:TEST_SAMPLES]
    stored = tables(directory, len(list(directory.glob("server-?.npz"))))
    with torch.no_grad():
        needed, places = rows.unique(return_inverse=True)
        outputs = pull(stored, needed)[places].sum(dim=1)
        accuracy = float((outputs.argmax(dim=1) == targets).float().mean())
        loss = float(cross_entropy(outputs, targets))
    applied = " and ".join(str(len(set(table.applied.tolist()))) for table in stored)
    print(f"{applied} shards applied, loss {loss:.4f}, accuracy {accuracy:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="directory for the rows of the servers")
    parser.add_argument("--alone", type=int, metavar="SHARDS", help="number of shards without a scheduler")
    parser.add_argument("--shard-seconds", type=float, default=0.0, help="minimum duration of a shard")
    parser.add_argument("--test", action="store_true", help="print the quality of the model")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    hosts = list(filter(None, os.environ.get("SCHED_FIXED_HOSTS", "").split(",")))
    token = os.environ.get("SCHED_TOKEN", "").encode()
    if options.test:
        test(options.directory)
    elif os.environ.get("SCHED_ROLE") == "fixed":
        place = int(os.environ["RANK"])
        table = tables(options.directory, len(hosts))[place]
        serve(table, int(hosts[place].rpartition(":")[2]), token)
    else:
        servers = [Remote(host, token) for host in hosts] or tables(options.directory, 1)
        with elastic.ShardQueue(shards=options.alone, epochs=EPOCHS_ALONE) as shards:
            train(shards, servers, options.shard_seconds)


if __name__ == "__main__":
    main()
