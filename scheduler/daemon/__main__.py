"""`python -m scheduler.daemon`: the daemon with settings from `SCHED_*` variables and an optional TOML file."""

import sys
from pathlib import Path

from scheduler.config import load_settings
from scheduler.daemon.serve import run
from scheduler.errors import SchedulerError


def main(arguments: list[str]) -> int:
    """0: stopped as asked; 1: could not start or go on, said in one line; 2: wrong usage."""
    if len(arguments) > 1:
        print("usage: python -m scheduler.daemon [SETTINGS.toml]", file=sys.stderr)
        return 2
    try:
        run(load_settings(Path(arguments[0]) if arguments else None))
    except SchedulerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
