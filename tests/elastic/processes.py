"""Real worker processes for the tests: started together, bounded in time, never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
#: How long a group of processes may take: each imports torch, maybe on a busy machine.
SECONDS_MAX = 240.0


def environment(**more: str) -> dict[str, str]:
    """This process's environment without any scheduler's, plus some."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHED_")}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **more}


@contextmanager
def python(*commands: list[str], env: list[dict[str, str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Runs Python with each of these arguments; all are gone afterwards."""
    running = [
        subprocess.Popen(
            [sys.executable, *command],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for command, variables in zip(commands, env, strict=True)
    ]
    try:
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def fixed_group(size: int, *command: str, **more: str) -> Iterator[list[subprocess.Popen[str]]]:
    """A group as torchrun would start it."""
    port = str(free_port())
    variables = [
        environment(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
        for rank in range(size)
    ]
    with python(*[list(command)] * size, env=variables) as running:
        yield running
