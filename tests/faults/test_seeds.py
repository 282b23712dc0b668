"""The fault simulation over its first seeds; `make simulate-faults SEEDS=n` looks further."""

import pytest

from tests.faults.batch import play_chunk
from tests.faults.draw import FIXED_FROM, WIDER_FROM, draw
from tests.faults.mutations import MUTATIONS, Mutation
from tests.faults.regressions import REGRESSIONS
from tests.faults.run import play, verdict
from tests.faults.sandbox import sandbox

SEEDS = 200
BATCH = 20
WIDER_SEEDS = 60
FIRSTS = (*range(0, SEEDS, BATCH), *range(WIDER_FROM, WIDER_FROM + WIDER_SEEDS, BATCH), FIXED_FROM)


@pytest.mark.parametrize("first", FIRSTS)
def test_every_invariant_holds_whatever_goes_wrong(first: int) -> None:
    failed = [outcome for outcome in play_chunk(range(first, first + BATCH)) if outcome.broken]
    assert not failed, "\n".join(verdict(outcome) for outcome in failed)


@pytest.mark.parametrize("seed", sorted(REGRESSIONS))
def test_what_failed_once_stays_mended(seed: int) -> None:
    (outcome,) = play_chunk([seed])
    assert outcome.broken is None, f"{REGRESSIONS[seed]}\n{verdict(outcome)}"


def test_a_seed_always_plays_alike() -> None:
    with sandbox() as box:
        first, second = (play(draw(7), box.fresh(), told=True) for _ in range(2))
    assert first == second
    assert first.story


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_simulation_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    with sandbox() as box:
        mutation.put_in(monkeypatch)
        seeds = range(mutation.first, mutation.first + SEEDS)
        broken = (outcome for seed in seeds if (outcome := play(draw(seed), box.fresh())).broken)
        found = next(broken, None)
        assert found is not None, f"{SEEDS} seeds notice nothing"
        assert found.broken is not None
        assert found.broken[0] == mutation.invariant, verdict(found)
        monkeypatch.undo()
        assert play(draw(found.seed), box.fresh()).broken is None, "the same seed is green without the defect"
