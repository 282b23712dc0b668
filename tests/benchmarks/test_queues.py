"""The benchmark that compares decisions with queues and without."""

from benchmarks import queues
from benchmarks.figure import Figure
from scheduler.model.queue import Queue, ancestry
from scheduler.model.queue_tree import nearest


def test_the_tree_has_three_levels_and_a_bit_of_everything() -> None:
    tree = {queue.path: queue for queue in queues.queues(queues.QUEUES, queues.NODES * 8)}
    assert len(tree) == queues.QUEUES
    assert {len(ancestry(path)) for path in tree} == {1, 2, 3}
    assert all(nearest(tree, queue.parent) == queue.parent for queue in tree.values())
    for has in (_guarantees, _limits, _shares, _limits_users):
        assert 0 < sum(map(has, tree.values())) < queues.QUEUES


def test_each_figure_with_queues_stands_beside_one_without() -> None:
    figures = queues.run(20, 100, 50, 1)
    assert [figure.what.rpartition(": ")[2] for figure in figures] == [
        "without queues, p50",
        "with queues, p50",
        "with queues ÷ without",
    ] * 4
    assert all(_positive(figure) for figure in figures)


def _positive(figure: Figure) -> bool:
    return figure.value is not None and figure.value > 0


def _guarantees(queue: Queue) -> bool:
    return bool(queue.guarantee)


def _limits(queue: Queue) -> bool:
    return bool(queue.limit)


def _shares(queue: Queue) -> bool:
    return queue.share_users


def _limits_users(queue: Queue) -> bool:
    return queue.user_limit is not None
