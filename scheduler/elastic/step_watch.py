"""Ends a worker whose step takes longer than its script allows. Standard library only.

Reports come from a thread that does not train, so the scheduler hears a worker that hangs in a step as ever. Where it
has peers, they miss it; one that is alone has none.
"""

import faulthandler
import os
import threading
from collections.abc import Callable

_LOOKS_MIN = 4
_LOOK_SECONDS_MAX = 0.5
_STDERR = 2
#: Exit status of a worker that hangs: a failure.
EXIT_HUNG = 1


def end_hung(seconds: float) -> None:
    """Ends the process at once, with the stack of each thread in its log: the hung thread may hold any lock."""
    os.write(_STDERR, f"no step ended within {seconds:g} s (step_timeout_seconds): this worker hangs\n".encode())
    faulthandler.dump_traceback(_STDERR, all_threads=True)
    os._exit(EXIT_HUNG)


class StepWatch:
    """The time that the script itself takes for a step: from one step boundary to the next, without the boundary."""

    def __init__(self, seconds: float | None, end: Callable[[float], None] = end_hung) -> None:
        """`seconds`: the longest that a step may take; None: any time. `end` is called by another thread, once."""
        self._seconds = seconds
        self._end = end
        self._lock = threading.Lock()
        #: Looks since the step began; None: the script is not in a step.
        self._looks: int | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """The script begins a step."""
        if self._seconds is None:
            return
        with self._lock:
            self._looks = 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, args=(self._seconds,), name="step-watch", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """The script has ended its step."""
        with self._lock:
            self._looks = None

    def _watch(self, seconds: float) -> None:
        """Counts looks: while this process itself was stopped, its script could not go on either."""
        look_seconds = min(seconds / _LOOKS_MIN, _LOOK_SECONDS_MAX)
        pause = threading.Event()
        while not pause.wait(look_seconds):
            with self._lock:
                if self._looks is None:
                    continue
                self._looks += 1
                hangs = self._looks * look_seconds >= seconds
            if hangs:
                self._end(seconds)
                return
