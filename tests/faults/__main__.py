"""The command: `python -m tests.faults --seeds 2000`, or `--seed 1234` for one seed and its story.

Without `--first`, every run draws other seeds, and says which.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter

from tests.faults.batch import play_all, replay
from tests.faults.draw import draw
from tests.faults.mutations import MUTATIONS, first_that_notices
from tests.faults.run import Outcome, verdict
from tests.faults.story import brief

PROGRESS_SECONDS = 5.0
#: Where seeds are drawn from when nobody names the first: they make plans of every kind, and nobody has named them yet.
FRESH = range(1_000_000, 1_000_000_000)


def main(arguments: list[str] | None = None) -> int:
    """0 if every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed alone and print its story")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (default: 200)")
    parser.add_argument("--first", type=int, help="the first of them (default: drawn, another one in every run)")
    parser.add_argument("--defect", choices=[m.name for m in MUTATIONS], help="look for a seed that notices it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return _tell(chosen.seed)
    first = random.choice(FRESH) if chosen.first is None else chosen.first
    seeds = range(first, first + chosen.seeds)
    if chosen.defect is not None:
        return _look_for(chosen.defect, seeds)
    print(f"seeds {first} to {seeds[-1]}: --seeds {chosen.seeds} --first {first}", flush=True)
    return _play_many(seeds, chosen.jobs)


def _look_for(defect: str, seeds: range) -> int:
    (mutation,) = (mutation for mutation in MUTATIONS if mutation.name == defect)
    found = first_that_notices(mutation, seeds)
    print(f"no seed from {seeds[0]} to {seeds[-1]} notices" if found is None else f"seed {found}")
    return 1 if found is None else 0


def _tell(seed: int) -> int:
    scenario = draw(seed)
    for name in ("policy", "engine", "replicas", "uncordon", "resume"):
        print(f"{name}: {getattr(scenario, name)}")
    for node in scenario.nodes:
        print(brief(node))
    outcome = replay(seed)
    print(*outcome.story, sep="\n")
    print(verdict(outcome))
    return 0 if outcome.broken is None else 1


def _play_many(seeds: range, jobs: int) -> int:
    started = shown = time.monotonic()
    outcomes: list[Outcome] = []
    failed = 0
    for outcome in play_all(seeds, jobs):
        outcomes.append(outcome)
        if outcome.broken is not None:
            failed += 1
            print(verdict(outcome), flush=True)
        if time.monotonic() - shown >= PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{len(outcomes)} of {len(seeds)} seeds, {failed} failed, {shown - started:.0f} s", flush=True)
    _summarize(outcomes, failed, time.monotonic() - started, jobs)
    return 1 if failed else 0


def _summarize(outcomes: list[Outcome], failed: int, seconds: float, jobs: int) -> None:
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        faults.update(outcome.faults)
    ticks, deaths = sum(o.ticks for o in outcomes), sum(o.deaths for o in outcomes)
    virtual_hours = sum(o.virtual_seconds for o in outcomes) / 3600
    print(f"{len(outcomes)} seeds, {failed} failed; {seconds:.0f} s with {jobs} processes")
    print(f"{ticks} ticks over {virtual_hours:.1f} simulated hours, {deaths} deaths of the daemon")
    print(f"{sum(faults.values())} faults:", ", ".join(f"{kind} {n}" for kind, n in sorted(faults.items())))


if __name__ == "__main__":
    sys.exit(main())
