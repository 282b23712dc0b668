"""A group's end where the script still refers to it: nothing waits for the group's threads with Python's lock held."""

import pytest

from tests.elastic.processes import SECONDS_MAX, environment, fixed_group, python

# A thread of the group is inside of a callback, and so needs the lock to go on, at the moment the script lets go of
# what holds the group. Where a wait for that thread holds the lock, nothing ever happens again.
LET_GO = """
import functools, sys, threading, torch, torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel
from scheduler.elastic.group import old_groups
from scheduler.elastic.group.group import Group
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.group.sockets import Connections

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = {}

def form(generation):
    return Group(Membership(generation, ("a",), None), 0, HashStore(), 60.0, Connections(frozenset(), frozenset()))

class Trainer:
    def __init__(self, parallel):
        self.parallel = parallel

def batches(parallel):
    while True:
        yield parallel

def train(holder, let_go):
    inside = threading.Event()

    def busy(_future):
        # A collective that has ended already calls back at once, here.
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            let_go.wait()

    own = dist.new_group([0]) if holder == "subgroup" else None
    parallel = DistributedDataParallel(model, process_group=own)
    if holder == "global":
        kept["it"] = parallel
    elif holder == "class":
        kept["it"] = Trainer(parallel)
    elif holder == "closure":
        kept["it"] = lambda: parallel
    elif holder == "generator":
        kept["it"] = batches(parallel)
        next(kept["it"])
    elif holder == "hook":
        kept["it"] = optimizer.register_step_pre_hook(functools.partial(lambda parallel, *_: None, parallel))
    parallel(torch.ones(2, 4)).sum().backward()
    while not inside.wait(0.01):
        dist.all_reduce(torch.ones(1 << 20), group=own, async_op=True).get_future().then(busy)
    raise LookupError

for generation, holder in enumerate(sys.argv[1:], 1):
    # Of this generation alone: a thread of the one before may call back as late as now.
    let_go = threading.Event()
    group = form(generation)
    try:
        train(holder, let_go)
    except LookupError:
        group.dissolve()
    print("out of the frames of", holder, flush=True)
    if holder == "hook":
        kept["it"].remove()
    kept.clear()
    print("let go by", holder, flush=True)
    let_go.set()
old_groups.release()
print("held", len(old_groups._held), flush=True)
"""


@pytest.mark.torch
def test_a_model_that_holds_the_group_goes_at_any_time_and_the_group_after_it() -> None:
    holders = ("frame", "global", "class", "closure", "generator", "hook", "subgroup")
    with python(["-c", LET_GO, *holders], env=[environment()]) as (alone,):
        output, _ = alone.communicate(timeout=SECONDS_MAX)
    told = [f"{what} {holder}" for holder in holders for what in ("out of the frames of", "let go by")]
    assert output.splitlines() == [*told, "held 0"]
    assert alone.returncode == 0


# A collective that gloo never ends, as far as others are told, in the middle of a backward pass.
FORGOTTEN = """
import os, sys, threading, torch
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel
from scheduler.elastic.group.group import Group
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.training.parallel import ParallelGradients
from scheduler.elastic.session import is_broken_group
from scheduler.elastic.group.sockets import Connections

model = torch.nn.Linear(4, 4, device=sys.argv[1])
store, rank, size = next(rendezvous("env://"))
members = tuple("abc"[:size])
group = Group(Membership(1, members, None), rank, store, 60.0, Connections(frozenset(), frozenset()))
gradients = ParallelGradients(model.parameters(), group)
waits = threading.Event()

def never(_state, bucket):
    waits.set()
    return torch.futures.Future()

def shut():
    waits.wait()
    group.shut()

parallel = DistributedDataParallel(model)
parallel.register_comm_hook(None, gradients.measured(never))
threading.Thread(target=shut).start()
try:
    parallel(torch.ones(2, 4, device=sys.argv[1])).sum().backward()
except RuntimeError as error:
    print("broken", is_broken_group(error), flush=True)
group.dissolve()
"""


@pytest.mark.torch
def test_a_backward_pass_that_waits_for_what_gloo_has_forgotten_ends_when_the_group_is_shut() -> None:
    frees_itself(1, "cpu")


def frees_itself(size: int, device: str) -> None:
    """Each rank gets out of the backward pass by itself, and ends well."""
    with fixed_group(size, "-c", FORGOTTEN, device) as ranks:
        for rank in ranks:
            output, _ = rank.communicate(timeout=SECONDS_MAX)
            assert "broken True" in output.splitlines(), output
            assert rank.returncode == 0
