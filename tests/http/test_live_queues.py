"""The live stream of many queues: no change tells of too many, and in the end all is told."""

import json

from hypothesis import given
from hypothesis import strategies as st

from scheduler.http.live.queues import CHANGED_MAX, LinesInTurn, QueueLine, queue_lines
from scheduler.model.queue_tree import QUEUES_MAX
from tests.http.queue_tree import crowd, plant
from tests.http.site import Site
from tests.http.test_live import Stream

#: Of what one change says of queues. The lines of all of them are longer.
BYTES_MAX = 60_000

PATHS = ("a", "a/a", "a/b", "b", "b/a", "b/a/a", "c", "d")
Held = dict[str, int]


@st.composite
def trees(draw: st.DrawFn) -> Held:
    """Queues with the slots that they hold; each beside the one that contains it."""
    drawn = draw(st.dictionaries(st.sampled_from(PATHS), st.integers(0, 2)))
    return {path: held for path, held in drawn.items() if _parents(path) <= drawn.keys()}


def _parents(path: str) -> set[str]:
    names = path.split("/")
    return {"/".join(names[:level]) for level in range(1, len(names))}


def _lines(held: Held) -> dict[str, QueueLine]:
    return {
        path: {
            "path": path,
            "slots_held": slots,
            "slots_entitled": None,
            "slots_guaranteed": None,
            "jobs_running": 0,
            "jobs_waiting": 0,
            "users": [],
            "users_more": 0,
            "trouble": None,
        }
        for path, slots in held.items()
    }


@given(trees(), st.lists(trees(), max_size=12), st.integers(1, 4))
def test_changes_are_told_in_parts_the_outer_queues_first_and_all_of_them_in_the_end(
    first: Held, later: list[Held], changed_max: int
) -> None:
    in_turn = LinesInTurn(changed_max)
    told = in_turn.next(_lines(first))
    assert told == _lines(first)
    last = (later or [first])[-1]
    steady = [last] * (len(PATHS) // changed_max + 1)
    for held in (*later, *steady):
        before, told = told, in_turn.next(_lines(held))
        assert sum(before.get(path) != line for path, line in told.items()) <= changed_max
        assert told.keys() <= held.keys()
        assert all(_parents(path) <= told.keys() for path in told)
    assert told == _lines(last)
    assert not in_turn.late


def test_nobody_waits_for_ever_while_others_change_each_time() -> None:
    in_turn = LinesInTurn(2)
    in_turn.next(_lines(dict.fromkeys(PATHS, 0)))
    seen = {
        path
        for count in range(1, 5)
        for path, line in in_turn.next(_lines(dict.fromkeys(PATHS, count))).items()
        if line["slots_held"]
    }
    assert seen == set(PATHS)


def test_a_change_to_all_queues_comes_in_parts_of_bounded_length(site: Site) -> None:
    leaves = plant(site, QUEUES_MAX, slots=4000)
    crowd(site, leaves, jobs=1000, users=800)
    site.tick()
    with site.client.stream("GET", "/v1/live") as answer:
        stream = Stream(answer)
        _, picture = stream.message()
        known = {queue["path"]: queue for queue in picture["queues"]}
        assert len(known) == QUEUES_MAX
        for number in range(10):
            site.node(f"n{number}", slots=400)
        site.tick()
        world = site.board.world
        assert world is not None
        wanted = json.loads(json.dumps(queue_lines(world, site.board.shares)))
        told: list[list[dict[str, object]]] = []
        while known != wanted:
            told.append(stream.until("queues"))
            known.update((queue["path"], queue) for queue in told[-1])
        assert max(map(len, told)) == CHANGED_MAX
        assert max(len(json.dumps(queues, separators=(",", ":"))) for queues in told) < BYTES_MAX
        assert len(json.dumps(wanted, separators=(",", ":"))) > 2 * BYTES_MAX


def test_queues_that_have_spent_their_budget_say_so(site: Site) -> None:
    for path in ("lab", "text"):
        site.client.post("/v1/queues", json={"path": path, "budget": 1}).raise_for_status()
    site.tick()
    world = site.board.world
    assert world is not None
    lines = queue_lines(world.with_spent(frozenset({"lab"})), site.board.shares)
    assert {path: line["trouble"] for path, line in lines.items()} == {"lab": "BUDGET_SPENT", "text": None}
