"""The example with parameter servers, slowed down for as long as the file named last on the command line exists."""

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from examples import parameter_server

SHARD_SECONDS = 0.2
#: After this many shards a worker takes twice as long for each, and so on: the data never comes to its end.
SHARDS = 10


def paced(shards: Iterable[Any], slow: Path) -> Iterator[Any]:
    for shard, number in zip(shards, count(), strict=False):
        if slow.exists():
            time.sleep(SHARD_SECONDS * (1 + number / SHARDS))
        yield shard


def main(slow: Path) -> None:
    train = parameter_server.train
    parameter_server.train = lambda shards, *others: train(paced(shards, slow), *others)
    parameter_server.main()


if __name__ == "__main__":
    main(Path(sys.argv.pop()))
