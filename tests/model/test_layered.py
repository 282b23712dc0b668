"""A mapping that shares its entries with another one is as a dict with the same changes."""

import pickle
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import layered
from scheduler.model.layered import Layered, changed

KEYS = st.integers(0, 9)
#: Keys to remove, and entries to set.
STEPS = st.lists(st.tuples(st.sets(KEYS, max_size=3), st.dictionaries(KEYS, st.integers(), max_size=3)), max_size=8)


@pytest.fixture(autouse=True, scope="module")
def shares_small_ones() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered, "COPIED_MAX", 2)
        patch.setattr(layered, "CHANGES_MAX", 6)
        yield


@given(st.dictionaries(KEYS, st.integers()), STEPS)
def test_it_is_as_a_dict_whatever_comes_and_goes(
    start: dict[int, int], steps: list[tuple[set[int], dict[int, int]]]
) -> None:
    mine: Mapping[int, int] = dict(start)
    plain = dict(start)
    for removed, come in steps:
        gone = {key for key in removed | come.keys() if key in plain}
        mine = changed(mine, gone, come)
        for key in gone:
            del plain[key]
        plain.update(come)
        assert list(mine.items()) == list(plain.items())
        assert (list(mine), list(mine.values()), len(mine)) == (list(plain), list(plain.values()), len(plain))
        assert mine == plain
        assert plain == mine
        assert [mine.get(key) for key in range(10)] == [plain.get(key) for key in range(10)]
        assert [key in mine for key in range(10)] == [key in plain for key in range(10)]
        assert {key: mine[key] for key in plain} == plain


def test_what_was_made_of_one_stays_as_it_was() -> None:
    first = changed({key: key for key in range(10)}, {3}, {3: 30})
    second = changed(first, {3, 4}, {11: 11})
    assert isinstance(first, Layered)
    assert isinstance(second, Layered)
    assert first == {**{key: key for key in range(10)}, 3: 30}
    assert second == {**{key: key for key in range(10) if key not in (3, 4)}, 11: 11}
    assert pickle.loads(pickle.dumps(second)) == second
    with pytest.raises(KeyError):
        second[4]


def test_many_changes_make_a_mapping_of_its_own() -> None:
    mine = changed({key: key for key in range(10)}, set(), {10: 10})
    assert isinstance(mine, Layered)
    assert isinstance(changed(mine, set(), dict.fromkeys(range(11, 20), 0)), dict)
