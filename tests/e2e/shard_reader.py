"""A worker for tests: writes down each shard that it works on, and each that its commit made its own.

With a second argument it takes its time until there is a file of that name, so that a test sees it work as long as it
has to.
"""

import os
import sys
import time

from scheduler import elastic

PACE_SECONDS = 0.02
SLOW_SECONDS = 0.25


def main() -> None:
    notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(notes, f"pid {os.getpid()}\n".encode())
    hurry = sys.argv[2] if len(sys.argv) > 2 else os.devnull
    with elastic.ShardQueue(ahead=4) as shards:
        for shard in shards:
            os.write(notes, f"worked {shard.position}\n".encode())
            time.sleep(PACE_SECONDS if os.path.exists(hurry) else SLOW_SECONDS)
            if not shards.commit():
                os.write(notes, f"committed {shard.position}\n".encode())


if __name__ == "__main__":
    main()
