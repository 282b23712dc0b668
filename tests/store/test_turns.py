"""The order in which writers of one process get their turn."""

from concurrent.futures import Future, ThreadPoolExecutor

from scheduler.store.sql.write_turns import Turns
from tests.eventually import becomes

WAIT_SECONDS = 30.0


def test_turns_go_round_in_order_and_the_urgent_first() -> None:
    turns, order = Turns(), []

    def wait(name: str) -> None:
        with turns.taken(WAIT_SECONDS, urgent=name.startswith("engine")) as taken:
            assert taken
            order.append(name)

    with ThreadPoolExecutor(6) as pool:
        with turns.taken(WAIT_SECONDS, urgent=False):
            waiting: list[Future[None]] = []
            for name in ("first", "engine's first", "second", "engine's second", "third", "engine's third"):
                waiting.append(pool.submit(wait, name))
                becomes(lambda: len(turns._waiting) + len(turns._urgent), len(waiting))
        for future in waiting:
            future.result(WAIT_SECONDS)
    assert order == ["engine's first", "engine's second", "engine's third", "first", "second", "third"]


def test_who_waits_too_long_gives_up_and_nobody_else_does() -> None:
    turns = Turns()
    with turns.taken(WAIT_SECONDS, urgent=False) as mine, turns.taken(0.01, urgent=True) as taken:
        assert (mine, taken) == (True, False)
    with turns.taken(0.01, urgent=False) as again:
        assert again


def test_never_two_at_once() -> None:
    turns, inside, counts = Turns(), [0], []

    def work(_: int) -> bool:
        with turns.taken(WAIT_SECONDS, urgent=False) as taken:
            inside[0] += 1
            counts.append(inside[0])
            inside[0] -= 1
        return taken

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(500)))
    assert counts == [1] * 500
