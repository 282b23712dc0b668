"""What is held of a node: slots that two holders claim stay held until both are gone."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.node_usage import NO_USAGE, NodeUsage, mask_of
from scheduler.model.stray import Stray

NODE = NodeName("a")

holders = st.builds(
    Stray,
    st.just(WorkerId("1-1")),
    st.just(JobId(1)),
    st.just(NODE),
    st.lists(st.integers(0, 4), unique=True, max_size=4).map(lambda slots: tuple(sorted(slots))),
    memory_mib=st.integers(0, 9),
    shared=st.booleans(),
)


def used_by(those: list[Stray]) -> NodeUsage:
    usage = NO_USAGE
    for each in those:
        usage = usage.plus(each)
    return usage


@given(st.lists(holders, max_size=6), st.randoms(use_true_random=False))
def test_it_is_what_those_hold_who_have_not_left_whoever_came_first(those: list[Stray], order: object) -> None:
    usage, left = used_by(those), list(those)
    order.shuffle(left)  # type: ignore[attr-defined]
    while left:
        usage = usage.minus(left.pop())
        assert usage == used_by(left)
        own = [slot for each in left if not each.shared for slot in each.slot_ids]
        assert usage.slot_mask == mask_of(tuple(own))
