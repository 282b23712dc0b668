"""`python -m tests.poisoned_daemon`: the daemon, which jobs named `poison-HARM-POINT` harm where they are handled."""

import re
import sys
from collections.abc import Callable
from typing import Any

from scheduler.daemon.__main__ import main
from scheduler.engine import board
from scheduler.engine.leadership import follower
from scheduler.model.job import Job
from tests.poison import HARMS, POINTS

NAME = re.compile(r"poison-([a-z]+)-(\d+)")


def _harmful(real: Callable[..., Any], point: int) -> Callable[..., Any]:
    def handle(*arguments: Any, **named: Any) -> Any:
        for job in arguments:
            if isinstance(job, Job) and job.held_from is None:
                poison = NAME.fullmatch(job.spec.name)
                if poison is not None and int(poison[2]) == point:
                    print(f"{job.spec.name} is handled", file=sys.stderr, flush=True)
                    HARMS[poison[1]]()
        return real(*arguments, **named)

    return handle


def put_in() -> None:
    """Poison every point."""
    for point, (owner, name) in enumerate(POINTS):
        handle = _harmful(getattr(owner, name), point)
        for place in (owner, board, follower) if name == "post" else (owner,):
            setattr(place, name, handle)


if __name__ == "__main__":
    put_in()
    sys.exit(main(sys.argv[1:]))
