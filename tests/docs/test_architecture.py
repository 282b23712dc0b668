"""docs/architecture.md: the way of one job names what is there, and visits no room twice but the engine's."""

import re
from itertools import groupby
from pathlib import Path

from tests.docs.test_contribute import ROOT, names_in

STOPS = re.findall(
    r"^\d+\. \[`([\w/]+\.py)`\]\(\.\./scheduler/([\w/]+\.py)\): `(\w+)` [^\n]+\.$",
    (ROOT / "docs" / "architecture.md").read_text(),
    re.MULTILINE,
)


def test_each_stop_is_a_file_and_a_name_in_it() -> None:
    assert len(STOPS) > 10
    for shown, path, name in STOPS:
        assert shown == path
        assert name in names_in(ROOT / "scheduler" / path), f"{path} has no {name}"


def test_no_room_is_visited_twice_but_those_of_the_tick() -> None:
    rooms = [room for room, _ in groupby(Path(path).parent.as_posix() for path, _, _ in STOPS)]
    outside = [room for room in rooms if not room.startswith("engine")]
    assert len(outside) == len(set(outside)), outside
