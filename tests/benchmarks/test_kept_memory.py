"""The memory that an object keeps is that of all that it leads to, each counted once."""

from benchmarks.kept_memory import kept_mib


class Holder:
    """Refers to others in its dict, or by a method of theirs."""

    def __init__(self, *what: object) -> None:
        self.what = what

    def called(self) -> None: ...


def test_what_is_reached_is_counted_once() -> None:
    large, small = bytes(8 * 2**20), bytes(2**20)
    assert 9 <= kept_mib(Holder([large, {"again": large}], small), without=()) < 9.1


def test_what_is_left_out_or_only_called_is_not_counted() -> None:
    large, small = bytes(8 * 2**20), bytes(2**20)
    caller = Holder(small, Holder(large).called)
    assert 1 <= kept_mib(caller, without=()) < 1.1
    assert 1 <= kept_mib([large, small], without=(large,)) < 1.1
