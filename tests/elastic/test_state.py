"""Commit, rollback and the single-process run, without any scheduler."""

import math
import os
import re
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from scheduler import elastic
from scheduler.elastic.group.group import Group
from scheduler.elastic.group.sockets import Connections
from scheduler.elastic.membership.agent import EXIT_DRAINED
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.training.snapshot import Snapshot
from scheduler.elastic.training.throughput import Pace
from tests.daemon import ROOT


def make_state(samples: int = 20, **values: object) -> elastic.State:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    sampler = elastic.ElasticDistributedSampler(samples, batch=4)
    return elastic.State(model=model, optimizer=optimizer, lr_scheduler=rates, sampler=sampler, **values)


def train_step(state: elastic.State, indices: list[int]) -> None:
    state.optimizer.zero_grad()
    inputs = torch.tensor(indices, dtype=torch.float32).unsqueeze(1).expand(-1, 3)
    state.model(inputs).square().sum().backward()
    state.average_gradients(len(indices), loss="sum")
    state.optimizer.step()
    state.lr_scheduler.step()


def everything(state: elastic.State) -> list[torch.Tensor]:
    tree = Snapshot()
    tree.take([state.model.state_dict(), state.optimizer.state_dict(), state.lr_scheduler.state_dict()])
    taken = tree.tree()
    momenta = [entry["momentum_buffer"] for entry in taken[1]["state"].values()]
    return [*taken[0].values(), *momenta, torch.tensor(taken[2]["last_epoch"])]


@pytest.fixture(autouse=True)
def without_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCHED_URL", "SCHED_CHECKPOINT_DIR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_a_rollback_brings_back_every_part_of_the_last_commit() -> None:
    state = make_state(best=0.5, history={"loss": [1.0]}, counts=torch.zeros(3))

    def train(state: elastic.State) -> None:
        batches = state.batches()
        for _ in range(2):
            train_step(state, next(batches))
            state.commit()
        before = [tensor.clone() for tensor in everything(state)]
        position = state.sampler.position
        train_step(state, next(batches))
        state.best = 0.9
        state.history["loss"].append(2.0)
        state.counts += 1
        state.restore()
        assert all(torch.equal(a, b) for a, b in zip(before, everything(state), strict=True))
        assert (state.best, state.history, state.counts.sum()) == (0.5, {"loss": [1.0]}, 0)
        assert (state.sampler.position, state.step) == (position, 2)

    elastic.run(train, state)


def test_what_is_restored_shares_no_memory_with_the_commit() -> None:
    state = make_state(counts=torch.zeros(3))

    def train(state: elastic.State) -> None:
        train_step(state, [1, 2])
        state.commit()
        kept = everything(state)
        for _ in range(2):
            state.restore()
            assert all(torch.equal(a, b) for a, b in zip(kept, everything(state), strict=True))
            train_step(state, [3, 4])

    elastic.run(train, state)


def test_a_script_runs_alone_to_its_end_and_gets_its_result() -> None:
    state = make_state(samples=10, seen=torch.zeros(10))

    def train(state: elastic.State) -> str:
        assert (state.rank, state.world_size, dist.get_world_size()) == (0, 1, 1)
        for _ in state.epochs(3):
            for indices in state.batches():
                train_step(state, indices)
                state.seen[indices] += 1
                state.commit()
        return "done"

    assert elastic.run(train, state) == "done"
    assert state.seen.tolist() == [3.0] * 10
    assert state.epoch == 3
    assert not dist.is_initialized()


def test_a_scripts_own_error_comes_through_unchanged() -> None:
    def train(state: elastic.State) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        elastic.run(train, make_state())
    assert not dist.is_initialized()


def test_an_unregistered_value_is_refused_when_assigned() -> None:
    state = make_state()
    with pytest.raises(AttributeError, match="pass it to State"):
        state.best = 1.0
    with pytest.raises(AttributeError, match="no 'best'"):
        _ = state.best
    with pytest.raises(elastic.UsageError, match="'commit' is reserved by State"):
        elastic.State(commit=1)


def test_misuse_is_explained() -> None:
    with pytest.raises(elastic.UsageError, match="needs a sampler"):
        next(elastic.State().batches())
    with pytest.raises(elastic.UsageError, match="inside the function passed to run"):
        make_state().average_gradients(1)
    with pytest.raises(elastic.UsageError, match="pass it to State"):
        elastic.State().average_gradients(1)
    with pytest.raises(elastic.UsageError, match="pass lr_scheduler to State"):
        elastic.State().step_schedule()
    with pytest.raises(elastic.UsageError, match="pass an optimizer and a sampler to State"):
        _ = elastic.State().base_steps
    with pytest.raises(elastic.UsageError, match="at most 15 numbers, not 16"):
        elastic.State().report(**{f"m{number}": 0.0 for number in range(16)})


def test_a_loader_that_does_not_take_its_samples_from_the_sampler_is_refused() -> None:
    state = make_state()
    data = torch.arange(20)
    with pytest.raises(elastic.UsageError, match=r"needs a loader of the state's sampler"):
        next(state.batches(torch.utils.data.DataLoader(data, batch_size=4)))
    assert len(list(state.batches(torch.utils.data.DataLoader(data, batch_sampler=state.sampler)))) == 5
    state.sampler.set_epoch(1)
    with pytest.raises(elastic.UsageError, match="ended after 2 of 5 steps"):
        list(state.batches([1, 2]))


def test_a_layer_that_is_unfrozen_has_its_gradients_averaged_from_then_on() -> None:
    state = make_state()
    state.model.weight.requires_grad_(False)

    def train(state: elastic.State) -> list[torch.Tensor]:
        gradients = []
        batches = state.batches()
        for frozen in (True, False):
            state.model.weight.requires_grad_(not frozen)
            state.optimizer.zero_grad()
            indices = next(batches)
            state.model(torch.ones(len(indices), 3)).sum().backward()
            state.average_gradients(len(indices), loss="sum")
            gradients.append(state.model.weight.grad)
            state.commit()
        return gradients

    before, after = elastic.run(train, state)
    assert before is None
    assert after.tolist() == [[1.0, 1.0, 1.0]]


def test_a_module_is_told_of_which_version_its_state_is() -> None:
    seen = []

    class Versioned(torch.nn.Linear):
        _version = 7

        def _load_from_state_dict(self, state: object, prefix: str, local_metadata: dict[str, object], *rest: object):  # type: ignore[no-untyped-def]
            seen.append(local_metadata.get("version"))
            super()._load_from_state_dict(state, prefix, local_metadata, *rest)

    state = elastic.State(model=torch.nn.Sequential(Versioned(2, 2)))
    state.commit()
    state.restore()
    assert seen == [7]


@pytest.mark.parametrize("dealt", [True, False])
def test_the_samples_of_all_steps_since_a_commit_count(dealt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr(Pace, "add", lambda _, samples, now: counted.append(samples))
    state = make_state(samples=32)

    def train(state: elastic.State) -> None:
        for step, indices in enumerate(state.batches() if dealt else [[0, 1, 2, 3]] * 8, 1):
            train_step(state, indices)
            if step % 4 == 0:
                state.commit()

    elastic.run(train, state)
    assert counted == [16, 16]


def test_a_parameter_is_kept_as_a_value() -> None:
    state = make_state(scale=torch.nn.Parameter(torch.ones(2)))
    state.commit()
    with torch.no_grad():
        state.scale.mul_(5)
    state.restore()
    assert state.scale.tolist() == [1.0, 1.0]
    assert state.scale.requires_grad


def test_a_loader_with_an_empty_share_gives_a_batch_of_zero_samples() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(6.0).view(3, 2), torch.arange(3))
    sampler = elastic.ElasticDistributedSampler(dataset, batch=2, shuffle=False)
    sampler.set_group(1, 2)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=elastic.collate_empty(dataset))
    shapes = [(tuple(inputs.shape), tuple(targets.shape)) for inputs, targets in loader]
    assert shapes == [((1, 2), (1,)), ((0, 2), (0,))]


def test_a_snapshot_keeps_types_shapes_and_plain_values() -> None:
    tree = {
        "a": torch.ones(2, 3, dtype=torch.bfloat16),
        "b": [torch.tensor(True), (torch.zeros(0), "x")],
        "c": {"n": None, "f": 1.5},
    }
    snapshot = Snapshot()
    for _ in range(2):
        snapshot.take(tree)
        copy = snapshot.tree()
        assert copy["a"].dtype == torch.bfloat16
        assert copy["a"].data_ptr() != tree["a"].data_ptr()
        assert copy["b"][1][0].shape == (0,)
        assert (copy["b"][1][1], copy["c"]) == ("x", {"n": None, "f": 1.5})


def test_a_run_resumes_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHED_CHECKPOINT_DIR", str(tmp_path))

    def interrupted(state: elastic.State) -> None:
        for number, indices in enumerate(state.batches()):
            train_step(state, indices)
            state.commit()
            if number == 2:
                raise KeyboardInterrupt

    first = make_state()
    with pytest.raises(KeyboardInterrupt):
        elastic.run(interrupted, first, checkpoint_every_seconds=0.0)

    def look(state: elastic.State) -> tuple[int, int]:
        return state.step, state.sampler.position

    second = make_state()
    assert elastic.run(look, second) == (3, 12)
    assert second.noise_scale is not None
    assert (second.noise_scale, second.base_steps) == (first.noise_scale, 3.0)
    assert all(torch.equal(a, b) for a, b in zip(everything(first), everything(second), strict=True))


class Steps:
    """A boundary at which training always goes on; keeps what is told."""

    def __init__(self) -> None:
        self.told: dict[str, object] = {}

    def agree(self, voted: bool | None, tell: Callable[[], tuple[float, ...]]) -> tuple[int, tuple[float, ...]]:
        return 0, tell()

    def proceed(self, decision: int) -> None:
        pass

    def wants_change(self) -> bool:
        return False

    def tell(self, fields: dict[str, object]) -> None:
        self.told |= fields


def test_the_pause_of_a_resize_is_told_but_not_how_long_it_took_to_lose_a_worker() -> None:
    state, steps = elastic.State(sampler=elastic.ElasticDistributedSampler(40, batch=4)), Steps()

    def train_on(generation: int) -> object:
        """One step in a group of this generation; the pause before it."""
        alone = Membership(generation, ("a",), None)
        state._join(Group(alone, 0, dist.HashStore(), 60.0, Connections(frozenset(), frozenset())), steps, lambda: None)
        next(state.batches())
        state.commit()
        assert state._group is not None
        state._group.dissolve()
        state._leave_group()
        return steps.told.pop("resize_seconds", None)

    assert train_on(1) is None
    assert train_on(2) is not None
    state.restore()
    assert train_on(3) is None
    assert train_on(4) is not None


def test_a_dict_with_an_order_of_its_own_comes_back_as_one() -> None:
    state = elastic.State(recent=OrderedDict(a=torch.zeros(1), b=1))
    state.commit()
    state.recent.move_to_end("a")
    state.restore()
    assert type(state.recent) is OrderedDict
    assert list(state.recent) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"model": [torch.nn.Linear(1, 1)]}, "model of State must be a torch.nn.Module, not [Linear("),
        ({"model": torch.nn.Linear}, "model of State must be a torch.nn.Module, not <class"),
        ({"optimizer": []}, "optimizer of State must be a torch.optim.Optimizer, not []"),
        ({"lr_scheduler": len}, "lr_scheduler of State must be a schedule of torch.optim.lr_scheduler, not <built-in"),
        ({"sampler": torch.utils.data.SequentialSampler([1])}, "sampler of State must be an ElasticDistributedSampler"),
    ],
)
def test_what_cannot_be_kept_as_what_it_is_passed_as_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(elastic.UsageError, match=re.escape(complaint)):
        elastic.State(**given)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"samples": 4, "loss": "Sum"}, "loss must be mean or sum, not 'Sum'"),
        ({"samples": -1}, "samples of average_gradients() must be 0 or more, not -1"),
        ({"samples": float("nan")}, "samples of average_gradients() must be 0 or more, not nan"),
        ({"samples": "4"}, "samples of average_gradients() must be 0 or more, not '4'"),
    ],
)
def test_gradients_are_not_averaged_by_what_is_no_number_or_an_unknown_loss(
    arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(elastic.UsageError, match=re.escape(complaint)):
        elastic.run(lambda state: state.average_gradients(**arguments), make_state())


@pytest.mark.parametrize(
    "option",
    [
        {"group_timeout_seconds": 0},
        {"group_timeout_seconds": "60"},
        {"group_timeout_seconds": math.inf},
        {"group_timeout_seconds": None},
        {"checkpoint_every_seconds": "600"},
        {"checkpoint_every_seconds": -1.0},
        {"quorum_after_seconds": math.nan},
        {"step_timeout_seconds": True},
    ],
)
def test_a_time_that_is_none_is_refused_before_anything_begins(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(elastic.UsageError, match=f"^{name}.* must be .*0.*, not "):
        elastic.run(lambda state: None, elastic.State(), **option)
    assert not dist.is_initialized()


def test_arguments_in_the_wrong_order_are_refused() -> None:
    wrong: Any = elastic.State()
    with pytest.raises(elastic.UsageError, match=r"run\(train, state\) takes a function and a State"):
        elastic.run(wrong, wrong)


def test_a_checkpoint_that_lacks_a_part_or_holds_something_else_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_CHECKPOINT_DIR", str(tmp_path))
    elastic.run(lambda state: state.commit(), elastic.State(best=1.0), checkpoint_every_seconds=0.0)
    with pytest.raises(elastic.UsageError, match=r"no model and no optimizer.*, only values: go on with[^\n]*$"):
        elastic.run(lambda state: None, make_state())
    for path in tmp_path.iterdir():
        torch.save({"epoch": 1}, path)
    with pytest.raises(elastic.UsageError, match=r"holds no state of a training, but \{'epoch': 1\}[^\n]*$"):
        elastic.run(lambda state: None, make_state())


@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_worker_leaves_with_its_status_also_where_its_output_cannot_be_written(output: str) -> None:
    script = "from scheduler.elastic.session import leave; import sys; sys.stdout and print('last words'); leave()"
    command = [sys.executable, "-c", script]
    if output == "closed":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    with open("/dev/full", "w") as full:
        left = subprocess.run(command, stdout=full, cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": ""}, check=False)
    assert left.returncode == EXIT_DRAINED
