"""The command: `python -m tests.faults --seeds 2000`, or `--seed 1234` for one seed and its story.

Without `--first`, every run draws other seeds, and says which. A seed means another scenario as soon as more is drawn:
what has failed is recorded as a case, `--seed 1234 --record NAME`, which `--case NAME` plays.
"""

import argparse
import os
import sys
import time
from collections import Counter
from itertools import combinations

from tests.faults.batch import fresh, play_all, replay
from tests.faults.cases import FAILED, Case, load, save
from tests.faults.draw import FEATURES, draw
from tests.faults.mutations import MUTATIONS, first_that_notices
from tests.faults.plan import Scenario
from tests.faults.run import Outcome, play, verdict
from tests.faults.sandbox import sandbox
from tests.faults.shrink import shrink
from tests.faults.story import brief

PROGRESS_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """0 if every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed alone and print its story")
    parser.add_argument("--record", metavar="NAME", help="where the seed fails, make it smaller and record it")
    parser.add_argument("--case", metavar="NAME", help="play this recorded case and print its story")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (default: 200)")
    parser.add_argument("--first", type=int, help="the first of them (default: drawn, another one in every run)")
    parser.add_argument("--defect", choices=[m.name for m in MUTATIONS], help="look for a scenario that notices it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    chosen = parser.parse_args(arguments)
    if chosen.case is not None:
        return _tell(load(FAILED / f"{chosen.case}.json").scenario, f"--case {chosen.case}")
    if chosen.seed is not None and chosen.record is not None:
        return _record(draw(chosen.seed), chosen.record)
    if chosen.seed is not None:
        return _tell(draw(chosen.seed))
    seeds = fresh(chosen.seeds) if chosen.first is None else range(chosen.first, chosen.first + chosen.seeds)
    if chosen.defect is not None:
        return _look_for(chosen.defect, seeds)
    print(f"seeds {seeds[0]} to {seeds[-1]}: --seeds {chosen.seeds} --first {seeds[0]}", flush=True)
    return _play_many(seeds, chosen.jobs)


def _look_for(defect: str, seeds: range) -> int:
    (mutation,) = (mutation for mutation in MUTATIONS if mutation.name == defect)
    found = first_that_notices(mutation, seeds)
    if found is None:
        print(f"no seed from {seeds[0]} to {seeds[-1]} notices")
        return 1
    save(mutation.case, Case(f"{mutation.invariant}: {defect}", found))
    print(f"seed {found.seed}: {mutation.case}")
    return 0


def _record(scenario: Scenario, name: str) -> int:
    with sandbox() as box:
        broken = play(scenario, box.fresh()).broken
        if broken is None:
            print("all invariants held: there is nothing to record")
            return 1

        def shows(smaller: Scenario) -> bool:
            found = play(smaller, box.fresh()).broken
            return found is not None and found[0] == broken[0]

        scenario = shrink(scenario, shows)
        found = play(scenario, box.fresh()).broken
    assert found is not None, "it still shows the same"
    path = FAILED / f"{name}.json"
    save(path, Case(": ".join(found), scenario))
    print(f'{path}: say under "found" what it was')
    return 0


def _tell(scenario: Scenario, command: str = "") -> int:
    for name in ("features", "policy", "engine", "replicas", "uncordon", "resume", "others_leave", "ahead_seconds"):
        print(f"{name}: {getattr(scenario, name)}")
    for node in scenario.nodes:
        print(brief(node))
    outcome = replay(scenario)
    print(*outcome.story, sep="\n")
    print(verdict(outcome, command))
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
    met: set[tuple[str, str]] = set()
    for outcome in outcomes:
        faults.update(outcome.faults)
        met.update(combinations(outcome.features, 2))
    ticks, deaths = sum(o.ticks for o in outcomes), sum(o.deaths for o in outcomes)
    virtual_hours, busy = sum(o.virtual_seconds for o in outcomes) / 3600, sum(o.cpu_seconds for o in outcomes)
    pairs = len(FEATURES) * (len(FEATURES) - 1) // 2
    print(f"{len(outcomes)} seeds, {failed} failed; {seconds:.0f} s with {jobs} processes")
    print(f"{len(outcomes) / seconds:.1f} seeds per second, {busy / len(outcomes):.2f} s of processor time per seed")
    print(f"{ticks} ticks over {virtual_hours:.1f} simulated hours, {deaths} deaths of the daemon")
    print(f"{len(met)} of {pairs} pairs of {len(FEATURES)} features met")
    print(f"{sum(faults.values())} faults:", ", ".join(f"{kind} {n}" for kind, n in sorted(faults.items())))


if __name__ == "__main__":
    sys.exit(main())
