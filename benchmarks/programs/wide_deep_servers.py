"""A wide & deep model trained by workers that take shards, over parameter servers that hold it.

    wide_deep_servers.py DIRECTORY SEED RECORDS SAMPLE_SECONDS

All parameters in a row are cut into rows of a fixed width, and row r lies on server r modulo their number. A worker
pulls them, computes the gradient of its shard and pushes it; the server takes a step of Adam. Nobody waits for anybody.
Each server stores with its rows which shards are in them, so that none counts twice.
"""

import os
import sys
import threading
import time
from pathlib import Path

import numpy
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.clicks import auc, draw_clicks
from benchmarks.programs.wide_deep import TEST_RECORDS, WideDeep
from examples.parameter_server import CLASSES as WIDTH
from examples.parameter_server import Remote, pull, push, serve
from scheduler import elastic

#: Records of a shard. A step is one of few records, so its rate is that of one batch of four shards, divided by √4.
SHARD_RECORDS = 256
RATE = 0.01
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class AdamTable:
    """A server's rows, in a file that is written whole at each push (Kingma and Ba, "Adam", 2015)."""

    def __init__(self, path: Path, rows: numpy.ndarray) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows = rows
        self._mean, self._square = numpy.zeros_like(rows), numpy.zeros_like(rows)
        #: Positions of the shards that are in the rows.
        self.applied = numpy.zeros(0, numpy.int64)
        if path.exists():
            with numpy.load(path) as stored:
                self.rows, self.applied = stored["rows"], stored["applied"]
                self._mean, self._square = stored["mean"], stored["square"]

    def pull(self, rows: numpy.ndarray) -> numpy.ndarray:
        """What they are now."""
        with self._lock:
            return self.rows[rows]

    def push(self, position: int, rows: numpy.ndarray, gradients: numpy.ndarray) -> None:
        """Takes a step, unless that was done for this position before."""
        with self._lock:
            if position in self.applied:
                return
            step = len(self.applied) + 1
            self._mean[rows] += (1 - BETA_1) * (gradients - self._mean[rows])
            self._square[rows] += (1 - BETA_2) * (gradients**2 - self._square[rows])
            mean = self._mean[rows] / (1 - BETA_1**step)
            square = self._square[rows] / (1 - BETA_2**step)
            self.rows[rows] -= RATE * mean / (numpy.sqrt(square) + EPSILON)
            self.applied = numpy.append(self.applied, position)
            partial = self._path.with_suffix(".partial.npz")
            numpy.savez(partial, rows=self.rows, applied=self.applied, mean=self._mean, square=self._square)
            partial.rename(self._path)


def first_rows(seed: int) -> numpy.ndarray:
    """All rows of the model that the seed gives, the last one filled up."""
    torch.manual_seed(seed)
    vector = parameters_to_vector(WideDeep().parameters()).detach()
    rows = torch.zeros(-(-len(vector) // WIDTH), WIDTH)
    rows.view(-1)[: len(vector)] = vector
    return rows.numpy()


def table(directory: Path, place: int, servers: int, seed: int) -> AdamTable:
    """What the server at this place holds."""
    return AdamTable(directory / f"server-{place}.npz", first_rows(seed)[place::servers].copy())


def train(directory: Path, seed: int, records: int, sample_seconds: float) -> None:
    """Does shards until all of the data is done."""
    hosts = os.environ["SCHED_FIXED_HOSTS"].split(",")
    servers = [Remote(host, os.environ.get("SCHED_TOKEN", "").encode()) for host in hosts]
    data = draw_clicks(records + TEST_RECORDS, seed).rows(slice(records))
    model = WideDeep()
    length = len(parameters_to_vector(model.parameters()))
    every = torch.arange(-(-length // WIDTH))
    with elastic.ShardQueue() as shards:
        for shard in shards:
            part = shard.part_of(records)
            ends_at = time.monotonic() + sample_seconds * len(part)
            vector_to_parameters(pull(servers, every).view(-1)[:length], model.parameters())
            model.zero_grad()
            batch = data.rows(slice(part.start, part.stop))
            binary_cross_entropy_with_logits(model(batch), batch.clicked).backward()
            gradients = torch.zeros(len(every), WIDTH)
            gradients.view(-1)[:length] = torch.cat([each.grad.view(-1) for each in model.parameters()])
            # Stands for the time that a larger model would compute.
            time.sleep(max(0.0, ends_at - time.monotonic()))
            push(servers, shard.position, every, gradients)


def test_auc(directory: Path, seed: int, records: int, servers: int) -> tuple[float, list[list[int]]]:
    """The quality of the stored model on records that were not trained on, and each server's shards."""
    tables = [table(directory, place, servers, seed) for place in range(servers)]
    rows = first_rows(seed)
    for place, each in enumerate(tables):
        rows[place::servers] = each.rows
    model = WideDeep()
    length = len(parameters_to_vector(model.parameters()))
    vector_to_parameters(torch.from_numpy(rows).view(-1)[:length], model.parameters())
    test = draw_clicks(records + TEST_RECORDS, seed).rows(slice(records, None))
    with torch.no_grad():
        return auc(model(test), test.clicked), [each.applied.tolist() for each in tables]


def main(directory: Path, seed: int, records: int, sample_seconds: float) -> None:
    torch.set_num_threads(1)
    if os.environ.get("SCHED_ROLE") != "fixed":
        train(directory, seed, records, sample_seconds)
        return
    directory.mkdir(parents=True, exist_ok=True)
    hosts = os.environ["SCHED_FIXED_HOSTS"].split(",")
    place = int(os.environ["RANK"])
    port = int(hosts[place].rpartition(":")[2])
    serve(table(directory, place, len(hosts), seed), port, os.environ.get("SCHED_TOKEN", "").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
