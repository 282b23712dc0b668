"""A tick that does not end: say where it stands, keep what it decides by, and let another process go on.

The watchdog counts its own beats, not the time: where the machine or the process stands still, both stand still.
"""

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler.config import PolicySettings
from scheduler.engine.attribution.inputs import seconds_allowed
from scheduler.engine.ports import TickInputs
from scheduler.engine.replay_case import Case, save_case

BEAT_SECONDS = 0.25
#: Where the stacks of a hanging tick go, below the state directory.
STACKS_FILE = "hang.txt"


#: Saving what a tick decides by must not hang as well.
SAVE_SECONDS_MAX = 5.0


class Watchdog:
    """Calls `on_hang`, once, when one decision has taken longer than allowed."""

    def __init__(
        self, deciding: Callable[[], TickInputs | None], seconds_max: float, on_hang: Callable[[TickInputs], None]
    ) -> None:
        """`deciding`: the inputs being decided by, another object in each tick. `seconds_max`: of a small cluster."""
        self._deciding = deciding
        self._seconds_max = seconds_max
        self._on_hang = on_hang
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        before, beats = self._deciding(), 0
        while not self._stopped.wait(BEAT_SECONDS):
            now = self._deciding()
            beats = beats + 1 if now is not None and now is before else 0
            before = now
            if now is not None and beats * BEAT_SECONDS > seconds_allowed(now, self._seconds_max):
                self._on_hang(now)
                return


def dump_stacks(state: Path) -> Path:
    """Write where every thread stands to a file."""
    path = state / STACKS_FILE
    with path.open("w") as file:
        faulthandler.dump_traceback(file)
    return path


def save_inputs(directory: Path, inputs: TickInputs, policy: PolicySettings, what: str) -> None:
    """Keep the world of the tick as a test case, as far as that can be done."""
    case = Case(inputs.world, inputs.now, policy, (what,))
    saving = threading.Thread(target=save_case, args=(directory, case), daemon=True)
    saving.start()
    saving.join(SAVE_SECONDS_MAX)


def start_anew() -> None:
    """Replace this process by a new one with the same arguments: locks, sockets and threads go, workers stay.

    Who serves in a terminal or under a service manager finds the daemon again under the same process id.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
