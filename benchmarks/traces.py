"""Where workloads lie that the project does not carry."""

import os
from pathlib import Path

from benchmarks.trouble import Skipped

#: Names their directory; `python -m benchmarks --traces DIR` sets it.
VARIABLE = "SCHED_TRACES"


def trace(path: str, origin: str) -> Path:
    """A file or directory of it. Raises `Skipped`, which tells where they come from."""
    directory = os.environ.get(VARIABLE)
    if not directory:
        raise Skipped(f"it needs --traces DIR (or {VARIABLE}) with DIR/{path} from {origin}")
    found = Path(directory) / path
    if not found.exists():
        raise Skipped(f"{found}: no such file or directory: it comes from {origin}")
    return found
