"""Parts of a log as the API server gives it: from its start, and as far as the kubelet has not rotated it away."""

import pytest

from scheduler.clusters.kubernetes.logs import read_part

LONG = bytes(range(256)) * 1024


def pieces(log: bytes) -> list[bytes]:
    return [log[begin : begin + 65536] for begin in range(0, len(log), 65536)]


@pytest.mark.parametrize(
    ("log", "offset", "limit", "part"),
    [
        (b"0123456789", 0, 4, (b"0123", 4)),
        (b"0123456789", 4, 100, (b"456789", 10)),
        (b"0123456789", 10, 100, (b"", 10)),
        (b"0123456789", -3, 100, (b"789", 10)),
        (b"0123456789", -3, 2, (b"78", 9)),
        (b"0123456789", -300, 100, (b"0123456789", 10)),
        (LONG, 70_000, 1000, (LONG[70_000:71_000], 71_000)),
        (LONG, len(LONG) - 5, 1000, (LONG[-5:], len(LONG))),
        (LONG, -70_000, 1000, (LONG[-70_000:-69_000], len(LONG) - 69_000)),
        (b"", 0, 100, (b"", 0)),
    ],
)
def test_a_part_is_what_was_asked_for(log: bytes, offset: int, limit: int, part: tuple[bytes, int]) -> None:
    assert read_part(pieces(log), offset, limit) == part


@pytest.mark.parametrize(
    ("log", "limit", "part"),
    [
        (b"anew", 100, (b"anew", 4)),
        (b"anew", 2, (b"an", 2)),
        (LONG, 100_000, (LONG[:100_000], 100_000)),
        (b"", 100, (b"", 0)),
    ],
)
def test_a_log_that_was_rotated_is_read_on_from_its_new_start(log: bytes, limit: int, part: tuple[bytes, int]) -> None:
    assert read_part(pieces(log), 10_000_000, limit) == part
