"""Groups of real processes: averaging over uneven shares, agreement, death of a peer, forming anew."""

import re
import signal
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch

from scheduler.elastic.errors import GroupBroken, Superseded
from scheduler.elastic.group.group import form
from scheduler.elastic.group.rendezvous_store import Meeting, connect
from scheduler.elastic.group.sockets import open_sockets
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.session import is_broken_group
from tests.elastic.processes import ROOT, SECONDS_MAX, environment, fixed_group, python
from tests.eventually import becomes, eventually
from tests.ports import free_port

DIGITS = str(ROOT / "examples" / "digits.py")
#: Of that example, with the commit at the end of an epoch.
STEPS_OF_EPOCH = 24

AVERAGE = """
import torch
from scheduler import elastic
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(2, 1, dtype=torch.DTYPE)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
inputs = torch.arange(10, dtype=torch.DTYPE).view(5, 2) / 10
sampler = elastic.ElasticDistributedSampler(5, batch=4, shuffle=False)
def train(state):
    for indices in state.batches():
        optimizer.zero_grad()
        if indices:
            outputs = model(inputs[indices])
            (outputs.sum() if "LOSS" == "sum" else outputs.mean()).backward()
        total = state.average_gradients(len(indices), loss="LOSS")
        print("gradient", total, [round(value, 2) for value in model.weight.grad[0].tolist()], flush=True)
        optimizer.step()
        state.commit()
elastic.run(train, elastic.State(model=model, optimizer=optimizer, sampler=sampler))
"""

#: Of groups whose members must not have to wait for it to be freed: longer than they are waited for.
GROUP_TIMEOUT_SECONDS = 4 * SECONDS_MAX

#: What is written down until two members connect: who came, that all did, and which GPU rank 0 has.
KEYS_OF_MEETING = 4

# Forms generation 1, dies or fails in a collective, forms generation 2 with who is left, and equalises the snapshots.
SURVIVE = """
import os, signal, sys, time, torch, torch.distributed as dist
from scheduler.elastic.group.group import form
from scheduler.elastic.group.rendezvous_store import Meeting, connect
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.training.snapshot import Snapshot
torch.set_num_threads(1)
rank, size, victim = map(int, sys.argv[1:])
meeting = Meeting("127.0.0.1", "token")
print(meeting.endpoint, flush=True)
first, second = input().split()
everyone = Membership(1, tuple("abcd"[:size]), None)
group = form(first, "token", meeting.connections(), everyone, rank, 0, TIMEOUT, lambda: True)
pending = dist.all_reduce(torch.ones(1), async_op=True)
try:
    # Through it here, one may be gone before another is through it.
    pending.wait()
    if rank == victim:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(torch.ones(1000))
except RuntimeError:
    group.shut()
    group.dissolve()
rank -= rank > victim
remaining = Membership(2, tuple("abc"[: size - 1]), None)
group = form(second, "token", meeting.connections(), remaining, rank, 0, TIMEOUT, lambda: True)
snapshot = Snapshot()
snapshot.take({"from": rank, "tensors": [torch.full((3,), float(rank)), torch.tensor(rank == 1), torch.zeros(0)]})
snapshot.send(group, 1)
print("got", snapshot.tree(), group.gather(rank * 10), flush=True)
group.dissolve()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("loss", "dtype"),
    [("sum", "float32"), ("mean", "bfloat16")],
)
def test_gradients_are_those_of_the_mean_over_all_samples_even_with_empty_shares(loss: str, dtype: str) -> None:
    script = AVERAGE.replace("LOSS", loss).replace("DTYPE", dtype)
    with fixed_group(3, "-c", script) as workers:
        outputs = [worker.communicate(timeout=SECONDS_MAX)[0] for worker in workers]
    # The mean of rows 0 to 3, dealt as 2 + 1 + 1; then of row 4, which only rank 0 gets.
    expected = ["gradient 4 [0.3, 0.4]", "gradient 1 [0.8, 0.9]"]
    assert [output.splitlines() for output in outputs] == [expected] * 3


@pytest.mark.torch
@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_death_frees_all_ranks_at_once_and_they_form_the_next_group(victim: int) -> None:
    size = 4
    script = SURVIVE.replace("TIMEOUT", str(GROUP_TIMEOUT_SECONDS))
    commands = [["-c", script, str(rank), str(size), str(victim)] for rank in range(size)]
    with python(*commands, env=[environment()] * size) as workers:
        endpoints = []
        for worker in workers:
            assert worker.stdout is not None
            endpoints.append(worker.stdout.readline().strip())
        second = endpoints[1 if victim == 0 else 0]
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{endpoints[0]} {second}\n")
            worker.stdin.flush()
        outputs = [worker.communicate(timeout=SECONDS_MAX)[0] for worker in workers]
        codes = [worker.returncode for worker in workers]
    assert codes == [-signal.SIGKILL if rank == victim else 0 for rank in range(size)]
    for rank, output in enumerate(outputs):
        if rank != victim:
            assert "'from': 1, 'tensors': [tensor([1., 1., 1.]), tensor(True), tensor([])]} [0, 10, 20]" in output


@pytest.mark.torch
def test_one_sigterm_stops_all_ranks_at_the_same_step_with_a_checkpoint_that_resumes(tmp_path: Path) -> None:
    # More than it gets to before the signal comes, however late that is.
    command = (DIGITS, "--epochs", "1000", "--step-seconds", "0.02")
    with fixed_group(2, *command, SCHED_CHECKPOINT_DIR=str(tmp_path)) as workers:
        assert workers[0].stdout is not None
        while "epoch 0" not in workers[0].stdout.readline():
            assert workers[0].poll() is None
        workers[1].terminate()
        assert [worker.wait(SECONDS_MAX) for worker in workers] == [64, 64]
    (checkpoint,) = tmp_path.iterdir()
    step = int(checkpoint.stem.split("-")[2])
    assert step >= STEPS_OF_EPOCH
    epochs = step // STEPS_OF_EPOCH + 2
    rest = [DIGITS, "--epochs", str(epochs)]
    with python(rest, env=[environment(SCHED_CHECKPOINT_DIR=str(tmp_path))]) as (alone,):
        output, _ = alone.communicate(timeout=SECONDS_MAX)
    assert f"rank 0 of 1, step {step}" in output
    assert f"epoch {epochs - 1}: every sample seen exactly once" in output
    assert f"after {epochs * STEPS_OF_EPOCH} steps" in output


@pytest.mark.slow
@pytest.mark.torch
def test_the_number_of_ranks_does_not_change_what_is_learnt() -> None:
    accuracies = []
    for size in (1, 3):
        with fixed_group(size, DIGITS, "--epochs", "3") as workers:
            output, _ = workers[0].communicate(timeout=SECONDS_MAX)
            assert [worker.wait(SECONDS_MAX) for worker in workers] == [0] * size
        found = re.search(r"accuracy ([\d.]+) after 72 steps", output)
        assert found is not None, output
        accuracies.append(float(found[1]))
    assert accuracies[0] > 0.85
    assert abs(accuracies[0] - accuracies[1]) <= 0.01


@pytest.mark.parametrize(("rank", "listening"), [(0, True), (1, True), (1, False)])
def test_waiting_for_a_member_that_never_comes_ends_when_the_list_is_superseded(rank: int, listening: bool) -> None:
    meeting = Meeting("127.0.0.1", "token")
    endpoint = meeting.endpoint if listening else f"127.0.0.1:{free_port()}"
    both = Membership(1, ("a", "b"), None)
    ends = time.monotonic() + 0.2
    with pytest.raises(Superseded):
        form(endpoint, "token", meeting.connections(), both, rank, 0, 60.0, lambda: time.monotonic() < ends)


@pytest.mark.parametrize("superseded", [False, True])
def test_a_group_that_is_over_leaves_no_connection_to_the_store_of_a_rank_0_that_stays(superseded: bool) -> None:
    before = len(open_sockets())
    meeting = Meeting("127.0.0.1", "token")
    for generation in (1, 2, 3):
        members = ("a", "b") if superseded else ("a",)
        looks = iter([True] * 3)
        with suppress(Superseded):
            form(
                meeting.endpoint,
                "token",
                meeting.connections(),
                Membership(generation, members, None),
                0,
                0,
                GROUP_TIMEOUT_SECONDS,
                lambda looks=looks: next(looks, False),
            ).dissolve()
    listening = 1
    becomes(lambda: len(open_sockets()), before + listening)
    meeting.close()


def test_a_death_while_connecting_is_ended_by_shutting_the_connections() -> None:
    meeting = Meeting("127.0.0.1", "token")
    connections = meeting.connections()
    # The peer came to the meeting, as the store tells, but is not there to connect with.
    store = connect(meeting.endpoint, "token")
    store.set("generation-1/attempt-0/came/1", "1")

    def shut() -> None:
        """Once rank 0 has told where it listens, and waits for the other."""
        eventually(lambda: store.num_keys() > KEYS_OF_MEETING, "they do not begin to connect")
        connections.shut()

    thread = threading.Thread(target=shut)
    thread.start()
    both = Membership(1, ("a", "b"), None)
    # The timeout of the test ends it long before that of the group would.
    with pytest.raises(GroupBroken):
        form(meeting.endpoint, "token", connections, both, 0, 0, GROUP_TIMEOUT_SECONDS, lambda: True)
    thread.join()


def test_a_pipe_that_the_script_opens_while_a_group_is_formed_is_the_scripts_own() -> None:
    meeting = Meeting("127.0.0.1", "token")
    connections = meeting.connections()
    (kept, other), (closed, its_other) = Pipe(), Pipe()
    connections.seal()
    closed.close()
    its_other.close()
    assert not connections.any_closed(), "a collective would take this for the death of a member"
    connections.shut()
    kept.send("still open")
    assert other.recv() == "still open"
    kept.close()
    other.close()
    meeting.close()


@pytest.mark.timeout(30)
def test_a_wait_for_a_connection_that_never_comes_is_ended_by_shutting_the_group() -> None:
    connections = Meeting("127.0.0.1", "token").connections()
    timer = threading.Timer(0.2, connections.shut)
    timer.start()
    bound = ("127.0.0.1", 0)
    with pytest.raises(OSError, match="Invalid argument"), connections.opening(), socket.create_server(bound) as server:
        server.accept()
    timer.join()


class EndsJustAfter(torch.distributed.Work):
    """A collective that ends between the time-out of whoever waits for it and the next question."""

    def __init__(self, error: str | None) -> None:
        super().__init__()
        self._error = error
        self._waits = 0

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._waits += 1
        if self._waits == 1:
            raise RuntimeError("Operation timed out!")
        if self._error is not None:
            raise RuntimeError(self._error)
        return True

    def is_completed(self) -> bool:
        return self._waits > 0


def test_a_collective_that_ends_just_after_a_look_has_not_failed_unless_it_says_so() -> None:
    meeting = Meeting("127.0.0.1", "token")
    alone = Membership(1, ("a",), None)
    group = form(meeting.endpoint, "token", meeting.connections(), alone, 0, 0, SECONDS_MAX, lambda: True)
    try:
        group.wait(EndsJustAfter(None), torch.zeros(1))
        with pytest.raises(RuntimeError, match="Connection closed by peer"):
            group.wait(EndsJustAfter("Connection closed by peer"), torch.zeros(1))
    finally:
        group.shut()
        group.dissolve()


def test_only_failed_collectives_count_as_a_broken_group() -> None:
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:15025."
    assert is_broken_group(RuntimeError(gloo))
    assert is_broken_group(torch.distributed.DistNetworkError("gone"))
    assert is_broken_group(GroupBroken("gone"))
    assert not is_broken_group(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_broken_group(ValueError("/gloo/"))


def test_a_list_survives_being_handed_on_and_tells_who_was_lost() -> None:
    before = Membership(7, ("12-1", "12-2", "12-3"), "127.0.0.1:4000")
    drained = Membership(8, ("12-1", "12-2"), None, frozenset({"12-3"}))
    assert Membership.parse(drained.encode()) == drained
    assert not drained.lost_since(before)
    assert Membership(8, ("12-1", "12-2"), None).lost_since(before)
    assert drained.rank_of("12-2") == 1
    assert drained.rank_of("12-3") is None
    for body in (b"", b"[]", b"{}", b'{"generation": 1, "workers": [{}]}'):
        with pytest.raises(ValueError, match=r"not a list|Expecting"):
            Membership.parse(body)
