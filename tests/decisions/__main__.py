"""The command: `python -m tests.decisions record`, and `compare` with what was recorded.

The same cases are played each time. Where a decision was changed on purpose, record it anew, and commit that with the
change.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks import traces
from tests.decisions.cases import SEEDS, kind_of, missing_traces, names
from tests.decisions.record import RECORDED, Recorded, difference, load, play_all, save

PROGRESS_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """0 if nothing differs."""
    chosen = _parser().parse_args(arguments)
    if chosen.traces:
        os.environ[traces.VARIABLE] = chosen.traces
    return int(chosen.run(chosen))


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("file", nargs="?", type=Path, default=RECORDED, metavar="FILE", help="default: the project's")
    common.add_argument("--seeds", type=int, default=SEEDS, help=f"how many fault seeds, from 0 on (default: {SEEDS})")
    common.add_argument("--only", metavar="GLOB", default="*", help="cases with such names, as in 'faults/*'")
    common.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    common.add_argument("--events", type=Path, metavar="DIR", help="write what is decided as text, for diff")
    common.add_argument("--traces", metavar="DIR", help=f"workloads of others (or {traces.VARIABLE}); adaptdl needs it")
    parser = argparse.ArgumentParser(prog="python -m tests.decisions", description=__doc__)
    commands = parser.add_subparsers(required=True)
    record = commands.add_parser("record", parents=[common], help="play cases and write their lines into FILE")
    record.set_defaults(run=_record)
    compare = commands.add_parser("compare", parents=[common], help="play cases of FILE and name those that differ")
    compare.add_argument("--against", type=Path, metavar="DIR", help="show where they first differ from text there")
    compare.set_defaults(run=_compare)
    return parser


def _record(chosen: argparse.Namespace) -> int:
    """Lines of cases that are not played stay."""
    lines = {line.case: line for line in load(chosen.file)} if chosen.file.exists() else {}
    lines |= {line.case: line for line in _play(names(chosen.seeds), chosen)}
    save(chosen.file, [lines[name] for name in names(chosen.seeds) if name in lines])
    return 0


def _compare(chosen: argparse.Namespace) -> int:
    before = {line.case: line for line in load(chosen.file)}
    played = 0
    differing: dict[str, list[str]] = {}
    for line in _play([name for name in names(chosen.seeds) if name in before], chosen):
        played += 1
        if line != before[line.case]:
            print(f"{line.case} differs: {line.events} events, recorded {before[line.case].events}", flush=True)
            differing.setdefault(kind_of(line.case), []).append(line.case)
    print(f"{sum(map(len, differing.values()))} of {played} cases differ")
    for first, *_ in differing.values() if chosen.against is not None else ():
        print(difference(first, chosen.against))
    return 1 if differing else 0


def _play(cases: Sequence[str], chosen: argparse.Namespace) -> Iterator[Recorded]:
    """Lines of the chosen ones among these cases."""
    cases = _playable([name for name in cases if fnmatchcase(name, chosen.only)])
    began = shown = time.monotonic()
    for count, line in enumerate(play_all(cases, chosen.jobs, chosen.events), start=1):
        yield line
        if time.monotonic() - shown >= PROGRESS_SECONDS or count == len(cases):
            shown = time.monotonic()
            print(f"{count} of {len(cases)} cases, {shown - began:.0f} s", flush=True)


def _playable(cases: list[str]) -> list[str]:
    missing = missing_traces()
    if missing is None or not any(kind_of(name) == "adaptdl" for name in cases):
        return cases
    print(f"left out are the cases of adaptdl: {missing}")
    return [name for name in cases if kind_of(name) != "adaptdl"]


if __name__ == "__main__":
    sys.exit(main())
