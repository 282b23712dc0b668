"""Sums below a priority equal what adding everything up gives, whatever comes and goes."""

import random

import numpy as np
import pytest

from scheduler.policy.capacity.priority_sums import CHANGES_MAX, SUMS_MAX, SumsBelow
from scheduler.policy.capacity.resources import Held, Rows, pour

POSITIONS = 5


class Plain:
    """Everything there is, one by one."""

    def __init__(self) -> None:
        self.all: list[tuple[int, Held]] = []
        self.sums = SumsBelow(POSITIONS, self.pour_between)

    def pour_between(self, rows: Rows, least: float, above: float, sign: int) -> None:
        for priority, held in self.all:
            if least <= priority < above:
                pour(rows, held, sign)

    def come(self, priority: int, held: Held) -> None:
        self.all.append((priority, held))
        self.sums.note(priority, held, 1)

    def go(self, k: int) -> None:
        priority, held = self.all.pop(k)
        self.sums.note(priority, held, -1)

    def below(self, priority: int) -> Rows:
        rows = np.zeros((POSITIONS, 3), np.int64)
        self.pour_between(rows, -(10**9), priority, 1)
        return rows


def held(dice: random.Random) -> Held:
    positions = dice.sample(range(POSITIONS), dice.randrange(1, 4))
    return tuple((i, (dice.randrange(9), dice.randrange(9), dice.randrange(9))) for i in positions)


@pytest.mark.parametrize("seed", range(10))
def test_they_follow_what_comes_and_goes(seed: int) -> None:
    dice, plain = random.Random(seed), Plain()
    priorities = range(-3, 3) if seed % 2 else range(2 * SUMS_MAX)
    for _ in range(20):
        for _ in range(dice.randrange(16)):
            if plain.all and dice.random() < 0.4:
                plain.go(dice.randrange(len(plain.all)))
            else:
                plain.come(dice.choice(priorities), held(dice))
            asked = dice.choice(priorities)
            assert (plain.sums.below(asked) == plain.below(asked)).all()
        for asked in dice.sample(priorities, min(len(priorities), SUMS_MAX + 10)):
            assert (plain.sums.below(asked) == plain.below(asked)).all()


def test_many_changes_are_let_go_and_nothing_is_lost() -> None:
    dice, plain = random.Random(1), Plain()
    plain.sums.below(1)
    for k in range(CHANGES_MAX + 1):
        plain.come(k % 4, ((k % POSITIONS, (1, 0, 0)),))
        if k == CHANGES_MAX - 5:
            plain.sums.below(2)
    plain.sums.trim()
    plain.come(0, held(dice))
    for asked in range(5):
        assert (plain.sums.below(asked) == plain.below(asked)).all()
