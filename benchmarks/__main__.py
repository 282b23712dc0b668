"""`python -m benchmarks [NAME...]`: measure, print a table each, write benchmarks/results/NAME.json."""

import argparse
import importlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks import traces
from benchmarks.figure import machine, save, table
from benchmarks.trouble import Skipped
from scheduler.errors import UserError

#: On this machine, in the order of a full run.
MEASURED = (
    "decision",
    "queues",
    "tick",
    "scale",
    "startup",
    "submits",
    "report",
    "data_queue",
    "throughput",
    "discover_hosts",
    "http_attack",
    "page",
    "scrape",
    "preempt",
    "resize_pause",
    "ddp",
    "rates",
    "wide_deep",
    "frameworks",
    "failover",
    "kubernetes",
    "cluster_experiments",
)
#: In virtual time, most of them on workloads that others published.
SIMULATED = ("elasticdl", "paddle_edl", "kueue", "adaptdl", "partitions")
NAMES = MEASURED + SIMULATED
#: Options that a benchmark takes beside its name; what is not given stays as it is there.
TAKEN = {
    "queues": ("quick",),
    "scale": ("nodes", "postgres"),
    "wide_deep": ("seeds", "samples", "picture"),
    "cluster_experiments": ("experiments", "seeds"),
    "ddp": ("variants", "resizes", "kills", "busy", "seed"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--traces", metavar="DIR", help=f"workloads of others (or {traces.VARIABLE}); adaptdl needs it")
    only = parser.add_argument_group("queues")
    only.add_argument("--quick", action="store_true", default=None, help="on a small cluster")
    only = parser.add_argument_group("scale")
    only.add_argument("--nodes", metavar="LIST", help="sizes of the cluster, with commas between (default: 1000)")
    only.add_argument("--postgres", action="store_true", default=None, help="on PostgreSQL instead of SQLite")
    only = parser.add_argument_group("cluster_experiments")
    only.add_argument("--experiments", metavar="LIST", help="with commas between: 1, 2, 3 (default: all)")
    only = parser.add_argument_group("wide_deep, and --seeds of cluster_experiments")
    only.add_argument("--seeds", type=int, metavar="N", help="how many trainings of each kind")
    only.add_argument("--samples", type=int, metavar="N", help="records to train on")
    only.add_argument("--picture", metavar="FILE", help="where to draw the curves (default: benchmarks/results)")
    only = parser.add_argument_group("ddp")
    only.add_argument(
        "--variants", metavar="LIST", help="with commas between: average, plain, buffers, accumulation, compile"
    )
    only.add_argument("--resizes", type=int, metavar="N", help="of each variant (default: 50)")
    only.add_argument("--kills", type=int, metavar="N", help="after growths, of each variant (default: 20)")
    only.add_argument("--busy", type=int, metavar="N", help="busy loops beside it (default: 2; 0 for quiet)")
    only.add_argument(
        "--seed", type=int, metavar="N", help="of the ranks that are killed (default: another one each time)"
    )
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
        given = {option: getattr(options, option) for option in TAKEN.get(name, ())}
        failed |= not measure(name, {option: value for option, value in given.items() if value is not None})
    return 1 if failed else 0


def measure(name: str, options: Mapping[str, Any]) -> bool:
    """Whether it could be measured; a missed target is a result, not a failure."""
    print(f"\n{name}: {first_line(name)}", flush=True)
    began = time.monotonic()
    try:
        figures = importlib.import_module(f"benchmarks.{name}").run(**options)
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
