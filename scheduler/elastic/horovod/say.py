"""Lines for the logs of driver and workers. Standard library only."""

import os
from contextlib import suppress

_STDERR = 2


def say(line: str) -> None:
    """Writes it, if the log takes it: a full disk, or a reader that has gone, must not keep anybody from its work.

    Nothing is kept for later: what Python cannot write at its end would be an exit status of its own.
    """
    with suppress(OSError):
        os.write(_STDERR, f"{line}\n".encode(errors="backslashreplace"))
