"""How often shards have failed, in levels: the first holds those that failed once, the next those that failed twice.

Pure; standard library only.
"""

from scheduler.model.ranges import NOTHING, Ranges

Levels = tuple[Ranges, ...]


def failed_again(levels: Levels, positions: Ranges, attempts_max: int) -> tuple[Levels, Ranges]:
    """The levels after one more failure of each of these, and those that have failed so often that it is enough."""
    raised = [*levels, *[NOTHING] * (attempts_max - 1 - len(levels))]
    left, fallen = positions, NOTHING
    for number in reversed(range(len(raised))):
        hit = raised[number].both(left)
        raised[number] = raised[number].minus(hit)
        left = left.minus(hit)
        if number + 1 < len(raised):
            raised[number + 1] = raised[number + 1].plus(hit)
        else:
            fallen = hit
    if not raised:
        return (), left
    raised[0] = raised[0].plus(left)
    return tuple(raised), fallen
