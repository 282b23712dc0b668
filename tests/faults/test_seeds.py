"""The fault simulation over its first seeds; `make simulate-faults` draws others in every run."""

import pytest

from tests.faults.batch import play_chunk
from tests.faults.draw import FIXED_FROM, WIDER_FROM, draw
from tests.faults.mutations import MUTATIONS, Mutation
from tests.faults.regressions import REGRESSIONS
from tests.faults.run import play, verdict
from tests.faults.sandbox import sandbox

BATCH = 10
#: Forty seeds of every kind of plan for every run, and further ones for those that may take long.
FIRSTS = (0, 10, WIDER_FROM, FIXED_FROM)
FURTHER = (*range(20, 200, BATCH), *range(WIDER_FROM + BATCH, WIDER_FROM + 60, BATCH), FIXED_FROM + BATCH)


@pytest.mark.parametrize("first", [*FIRSTS, *(pytest.param(first, marks=pytest.mark.slow) for first in FURTHER)])
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
        found = play(draw(mutation.seed), box.fresh())
        search = f"look for another seed: python -m tests.faults --defect {mutation.name!r}"
        assert found.broken is not None, f"seed {mutation.seed} does not notice; {search}"
        assert found.broken[0] == mutation.invariant, f"{verdict(found)}\n{search}"
        monkeypatch.undo()
        assert play(draw(mutation.seed), box.fresh()).broken is None, "the same seed is green without the defect"
