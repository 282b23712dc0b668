"""A job that works in steps of 100 ms and, asked to leave by SIGTERM, goes at the end of its step."""

import signal
import sys
import time
from types import FrameType

STEP_SECONDS = 0.1
DRAINED = 64
_asked = False


def _ask(_number: int, _frame: FrameType | None) -> None:
    global _asked
    _asked = True


def main() -> int:
    signal.signal(signal.SIGTERM, _ask)
    deadline = time.monotonic() + 3600
    while time.monotonic() < deadline:
        end = time.monotonic() + STEP_SECONDS
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)
        if _asked:
            return DRAINED
    return 0


if __name__ == "__main__":
    sys.exit(main())
