"""`python -m benchmarks [NAME...]`: measure, print a table each, write benchmarks/results/NAME.json."""

import argparse
import importlib
import os
import signal
import sys
import time

from benchmarks import traces
from benchmarks.figure import machine, save, table
from benchmarks.trouble import Skipped
from scheduler.errors import UserError

#: On this machine, in the order of a full run.
MEASURED = (
    "decision",
    "tick",
    "startup",
    "submits",
    "data_queue",
    "throughput",
    "discover_hosts",
    "preempt",
    "resize_pause",
    "rates",
    "frameworks",
    "failover",
    "kubernetes",
)
#: In virtual time, on workloads that others published.
SIMULATED = ("elasticdl", "paddle_edl", "kueue", "adaptdl")
NAMES = MEASURED + SIMULATED


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--traces", metavar="DIR", help=f"workloads of others (or {traces.VARIABLE}); adaptdl needs it")
    options = parser.parse_args()
    if options.traces:
        os.environ[traces.VARIABLE] = options.traces
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}: there are {', '.join(NAMES)}")
    # SIGTERM unwinds like Ctrl-C, so that every benchmark takes its processes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"On {machine()}.")
    failed = False
    for name in options.names or NAMES:
        failed |= not measure(name)
    return 1 if failed else 0


def measure(name: str) -> bool:
    """Whether it could be measured; a missed target is a result, not a failure."""
    print(f"\n{name}: {first_line(name)}", flush=True)
    began = time.monotonic()
    try:
        figures = importlib.import_module(f"benchmarks.{name}").run()
    except (Skipped, UserError) as reason:
        print(f"not measured: {reason}")
        return False
    print(table(figures))
    print(f"{time.monotonic() - began:.0f} s; written to {save(name, figures)}", flush=True)
    return True


def first_line(name: str) -> str:
    text = importlib.import_module(f"benchmarks.{name}").__doc__ or ""
    return text.strip().splitlines()[0]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
