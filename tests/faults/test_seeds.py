"""The fault simulation over seeds that nobody has tried, and over everything that ever failed."""

from pathlib import Path

import pytest

from tests.faults.batch import fresh, play_chunk, replay
from tests.faults.cases import FAILED, NOTICING, Case, load, recorded, save
from tests.faults.draw import FEATURES, draw
from tests.faults.mutations import MUTATIONS, Mutation
from tests.faults.run import play, verdict
from tests.faults.sandbox import sandbox
from tests.faults.shrink import shrink

BATCH = 10
#: Twenty fresh seeds for every run; `make simulate-faults` draws any number.
BATCHES = range(2)


@pytest.mark.parametrize("number", BATCHES)
def test_every_invariant_holds_whatever_goes_wrong(number: int) -> None:
    seeds = fresh(BATCH)
    print(f"batch {number}: seeds {seeds[0]} to {seeds[-1]}")
    failed = [outcome for outcome in play_chunk(seeds) if outcome.broken]
    assert not failed, "\n".join(verdict(outcome) for outcome in failed)


@pytest.mark.parametrize("path", recorded(FAILED), ids=lambda path: path.stem)
def test_what_failed_once_stays_mended(path: Path) -> None:
    case = load(path)
    with sandbox() as box:
        outcome = play(case.scenario, box.fresh())
    assert outcome.broken is None, f"{case.found}\n{verdict(outcome, f'--case {path.stem}')}"


def test_a_seed_always_plays_alike() -> None:
    seed = fresh(1)[0]
    first, second = (replay(draw(seed)) for _ in range(2))
    assert first == second
    assert first.story


def test_each_feature_is_drawn_and_most_are_off() -> None:
    drawn = [draw(seed).features for seed in fresh(300)]
    assert {name for features in drawn for name in features} == set(FEATURES)
    assert all(len(features) < len(FEATURES) for features in drawn)


def test_a_feature_that_is_added_leaves_other_seeds_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = fresh(30)
    before = [draw(seed) for seed in seeds]
    monkeypatch.setitem(FEATURES, "another", lambda of, scenario: scenario)
    after = [draw(seed) for seed in seeds]
    assert [a for a in after if "another" not in a.features] == [
        b for a, b in zip(after, before, strict=True) if "another" not in a.features
    ]


def test_what_is_recorded_is_what_was_drawn(tmp_path: Path) -> None:
    for seed in fresh(100):
        case = Case("all of it", draw(seed))
        save(tmp_path / "case.json", case)
        assert load(tmp_path / "case.json") == case, f"seed {seed}"


def test_a_case_is_made_as_small_as_it_gets() -> None:
    scenario = next(s for s in map(draw, fresh(1000)) if len(s.faults) > 5 and len(s.arrivals) > 3)
    wanted = scenario.faults[-2]
    smallest = shrink(scenario, lambda smaller: wanted in smaller.faults)
    assert (smallest.faults, len(smallest.arrivals), len(smallest.nodes)) == ((wanted,), 1, 1)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_simulation_notices(mutation: Mutation) -> None:
    with sandbox() as box:
        noticed = mutation.noticed(load(mutation.case).scenario, box)
    assert noticed, f"look for another scenario: python -m tests.faults --defect {mutation.name!r}"


def test_no_case_is_left_of_a_defect_that_is_not_put_in_any_more() -> None:
    assert recorded(NOTICING) == sorted(mutation.case for mutation in MUTATIONS)
