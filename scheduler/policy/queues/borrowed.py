"""What queues hold beyond their guarantees: slots that others lend them.

From the innermost queues outwards, each guarantee covers what the queue and those inside it hold: first that of a GPU
type the slots of this type, then that of any type the rest. A queue's guarantee also bounds what those inside it are
covered for: no more is promised to them together. What no guarantee covers is borrowed. A queue inside another one
uses the guarantee of the outer one as its own; what its siblings were promised of that counts all the same.
"""

from collections.abc import Iterable, Mapping

from scheduler.model.queue import ANY_GPU, Queue, ancestry

#: Slots of one GPU type that the jobs of one queue hold: path and type.
Cell = tuple[str, str]


def lent_parts(queues: Mapping[str, Queue], held: Mapping[Cell, int]) -> dict[Cell, float]:
    """The part of each cell's slots that is borrowed, from 0 to 1; nothing is where there are no queues.

    Cells of queues inside each other must be given together; those of different first levels do not matter to each
    other.
    """
    if not queues:
        return dict.fromkeys(held, 0.0)
    covered = dict.fromkeys(held, 0.0)
    inside: dict[str, list[Cell]] = {}
    for cell in held:
        for path in ancestry(cell[0]):
            if path in queues:
                inside.setdefault(path, []).append(cell)
    for path in sorted(inside, key=lambda path: (-path.count("/"), path)):
        _cover(dict(queues[path].guarantee), inside[path], held, covered)
    return {cell: max(0.0, 1.0 - covered[cell] / slots) if slots > 0 else 0.0 for cell, slots in held.items()}


def _cover(
    guarantee: Mapping[str, int], cells: list[Cell], held: Mapping[Cell, int], covered: dict[Cell, float]
) -> None:
    """Cover what these cells hold with one queue's guarantee, within what it promises."""
    for kind, slots in guarantee.items():
        if kind != ANY_GPU:
            _bring_to(slots, [cell for cell in cells if cell[1] == kind], held, covered)
    if ANY_GPU in guarantee:
        typed = [cell for cell in cells if cell[1] in guarantee]
        by_type = sum(covered[cell] for cell in typed)
        others = [cell for cell in cells if cell[1] not in guarantee]
        if by_type + sum(covered[cell] for cell in others) > guarantee[ANY_GPU]:
            _bring_to(max(0.0, guarantee[ANY_GPU] - by_type), others, held, covered)
        else:
            _bring_to(guarantee[ANY_GPU], cells, held, covered)


def _bring_to(slots: float, cells: Iterable[Cell], held: Mapping[Cell, int], covered: dict[Cell, float]) -> None:
    """Let this many slots of the cells be covered, as far as they hold them: each cell changes in proportion."""
    cells = list(cells)
    now, most = sum(covered[cell] for cell in cells), sum(held[cell] for cell in cells)
    if now > slots:
        for cell in cells:
            covered[cell] *= slots / now
    elif most > now:
        part = min(1.0, (slots - now) / (most - now))
        for cell in cells:
            covered[cell] += part * (held[cell] - covered[cell])
