"""Entry point: `drive LAUNCHER… -- OPTIONS… PROGRAM…`, and `hold N` for a worker with N warm processes.

A worker calls it again: `warm FD` is a warm process.
"""

import os
import sys

from scheduler.elastic.environment import Environment
from scheduler.elastic.horovod.driver import drive
from scheduler.elastic.horovod.warm import become_what_comes
from scheduler.elastic.horovod.worker import Holder


def main(words: list[str]) -> int:
    """The exit status."""
    if words[:1] == ["warm"]:
        become_what_comes(int(words[1]))
        return 0
    environment = Environment.read(os.environ)
    if environment is None:
        raise SystemExit("scheduler.elastic.horovod must be started by the scheduler: SCHED_URL is not set")
    if words[:1] == ["drive"]:
        split = words.index("--")
        return drive(environment, words[1:split], words[split + 1 :])
    Holder(environment, int(words[1])).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
