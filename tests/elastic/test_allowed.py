"""What a training state may hold comes back whole, and bytes that hold anything else run nothing."""

import copy
import logging
import os
import pickle
import random
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.optim import lr_scheduler

from scheduler import elastic
from scheduler.elastic.training import allowed
from scheduler.elastic.training.checkpoint import CheckpointDirectory
from scheduler.elastic.training.snapshot import Snapshot

OPTIMIZERS = {
    name: value
    for name, value in vars(torch.optim).items()
    if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
}

Optimizer = torch.optim.Optimizer
SCHEDULERS: dict[str, Callable[[Optimizer], Any]] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda _: 0.9),
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [1, 2, 2]),
    "constant": lambda o: lr_scheduler.ConstantLR(o),
    "linear": lambda o: lr_scheduler.LinearLR(o),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.CosineAnnealingLR(o, 5)], milestones=[2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "averaged": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05),
}

#: Everything that docs/elastic.md lists.
VALUES: dict[str, Any] = {
    "plain": [None, True, 3, 10**40, -1.5, float("inf"), 1j, "é", b"\0x", bytearray(b"ab")],
    "nested": {"a": [1, (2, {"b": {3, 4}})], (1, 2): "key", 7: frozenset({1})},
    "ordered": OrderedDict(b=1, a=2),
    "counter": Counter("aab"),
    "python's randomness": random.getstate(),
    "numpy's randomness": numpy.random.get_state(),
    "a numpy generator": numpy.random.default_rng(1).bit_generator.state,
    "torch's randomness": torch.get_rng_state(),
    "arrays": [numpy.arange(6.0).reshape(2, 3), numpy.array(["x", "yz"]), numpy.zeros(2, [("n", "i4"), ("x", "f8")])],
    "numbers of numpy": [numpy.float64(1.5), numpy.float32(2.5), numpy.int64(-3), numpy.bool_(True)],
    "torch's types": [torch.Size([1, 2]), torch.bfloat16, torch.device("cpu")],
    "a parameter": torch.nn.Parameter(torch.ones(2)),
}


class Attack:
    """What an attacker writes: to read it is to run a command of his."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


class Setting:
    """A type that no list has."""

    def __init__(self, value: int) -> None:
        self.value = value


def comes_back(value: Any) -> Any:
    allowed.require_allowed(value)
    return allowed.decode(allowed.encode(value))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and bool((a == b).all())
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def model_and(optimizer: Callable[..., Optimizer], **options: Any) -> tuple[torch.nn.Module, Optimizer]:
    model = torch.nn.Linear(3, 2)
    return model, optimizer(model.parameters(), lr=0.1, **options)


def trained(model: torch.nn.Module, optimizer: Optimizer, steps: int = 3) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.as_tensor(model(torch.ones(4, 3)).square().sum())
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def test_all_optimizers_of_torch_come_back_as_they_were() -> None:
    tried = []
    for name, kind in OPTIMIZERS.items():
        with suppress(TypeError, RuntimeError, ValueError):  # SparseAdam and Muon take other parameters
            model, optimizer = model_and(kind)
            trained(model, optimizer)
            tried.append(name)
            assert same(comes_back(optimizer.state_dict()), optimizer.state_dict()), name
    assert {"SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS", "NAdam", "RAdam", "Adafactor"} <= set(tried)


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.filterwarnings("ignore")
def test_schedulers_of_torch_come_back_and_go_on_alike(name: str, tmp_path: Path) -> None:
    def begun() -> tuple[Any, Optimizer]:
        model, optimizer = model_and(torch.optim.SGD, momentum=0.9)
        trained(model, optimizer, 1)
        return SCHEDULERS[name](optimizer), optimizer

    def step(schedule: Any) -> None:
        schedule.step(1.0) if name == "plateau" else schedule.step()

    schedule, optimizer = begun()
    step(schedule)
    snapshot = Snapshot()
    snapshot.take({"schedule": schedule.state_dict(), "optimizer": optimizer.state_dict()})
    directory = CheckpointDirectory(tmp_path)
    directory.write(1, 1, snapshot.tree())
    found = directory.read()
    assert found is not None
    again, other = begun()
    again.load_state_dict(found[1]["schedule"])
    other.load_state_dict(found[1]["optimizer"])
    for _ in range(3):
        assert other.param_groups[0]["lr"] == pytest.approx(optimizer.param_groups[0]["lr"])
        step(schedule)
        step(again)


@pytest.mark.parametrize("name", VALUES)
def test_allowed_values_come_back_as_they_were(name: str) -> None:
    assert same(comes_back(VALUES[name]), VALUES[name])


def test_the_state_of_a_scaler_and_of_an_averaged_model_come_back() -> None:
    averaged = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(2, 2))
    averaged.update_parameters(torch.nn.Linear(2, 2))
    for state in (torch.amp.GradScaler("cpu").state_dict(), averaged.state_dict()):
        assert same(comes_back(state), state)


@pytest.mark.parametrize(
    "value",
    [Path("a"), Setting(1), Fraction(1, 2), deque([1]), range(3), torch.Generator(), len, numpy.array([{}])],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_allowed_is_refused_at_the_first_commit(value: object) -> None:
    state = elastic.State(value=value)
    with pytest.raises(elastic.UsageError, match=r"^the state (holds|cannot be stored)[^\n]*$") as refused:
        elastic.run(lambda state: state.commit(), state)
    kind = type(value)
    if kind is Setting:
        assert f"{kind.__module__}.{kind.__qualname__}" in str(refused.value)
        assert f"torch.serialization.add_safe_globals([{kind.__module__}.{kind.__qualname__}])" in str(refused.value)


def test_a_value_that_turns_into_another_is_refused_when_it_comes() -> None:
    state = elastic.State(value=1.0, deep={"list": [1]})

    def train(state: elastic.State) -> None:
        state.commit()
        state.deep["list"].append(Setting(1))
        state.commit()

    with pytest.raises(elastic.UsageError, match="Setting"):
        elastic.run(train, state)


def test_what_cannot_be_pickled_is_refused_in_one_line() -> None:
    with pytest.raises(elastic.UsageError, match=r"^the state holds a value that cannot be stored: [^\n]*$"):
        elastic.run(lambda state: state.commit(), elastic.State(value=lambda: None))


def test_a_type_that_the_script_allows_is_kept(tmp_path: Path) -> None:
    with torch.serialization.safe_globals([Setting]):
        directory = CheckpointDirectory(tmp_path)
        directory.write(1, 1, {"value": Setting(7)})
        found = directory.read()
    assert found is not None
    assert found[1]["value"].value == 7


def test_dicts_of_other_types_come_back_as_plain_ones() -> None:
    snapshot = Snapshot()
    snapshot.take({"d": defaultdict(list, a=[1]), "c": Counter("aa")})
    assert same(snapshot.tree(), {"d": {"a": [1]}, "c": Counter("aa")})


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """What an attack leaves behind; nothing may."""
    mark = tmp_path / "attacked"
    yield mark
    assert not mark.exists()


def planted(directory: Path, mark: Path) -> Iterator[Path]:
    """A checkpoint with an attack in each of the forms that a reader might take."""
    directory.mkdir(exist_ok=True)
    path = directory / "checkpoint-9-9.pt"
    tree = {"step": 9, "epoch": 0, "components": {}, "values": {"x": Attack(mark)}}
    for content in (tree, {"sched_job": "7-ab", "sched_state": tree}, Attack(mark), [Attack(mark)]):
        torch.save(content, path)
        yield path
        torch.save(content, path, _use_new_zipfile_serialization=False)
        yield path
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            path.write_bytes(pickle.dumps(content, protocol))
            yield path


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_planted_checkpoint_runs_nothing(tmp_path: Path, mark: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = CheckpointDirectory(tmp_path / "checkpoint", "7-ab")
    directory.write(1, 1, {"step": 1})
    refused = 0
    for path in planted(tmp_path / "checkpoint", mark):
        if zipfile.is_zipfile(path):
            with pytest.raises(elastic.UsageError, match=r"checkpoint-9-9.pt holds posix.mkdir, which is not [^\n]*$"):
                directory.read()
            refused += 1
        else:
            assert directory.read() == (1, {"step": 1})
    assert refused == 4, "those that torch.save writes"
    assert not any("weights_only" in record.getMessage() for record in caplog.records), "no advice to trust it"


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_bytes_of_a_peer_run_nothing(mark: Path) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(pickle.UnpicklingError):
            allowed.decode(pickle.dumps(Attack(mark), protocol))
    with pytest.raises(pickle.UnpicklingError):
        allowed.decode(allowed.encode({"a": Attack(mark)}))


def test_a_checkpoint_of_another_job_is_not_loaded_and_says_whose_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    CheckpointDirectory(tmp_path, "7-aaaaaaaaaa").write(5, 50, {"of": "another life"})
    own = CheckpointDirectory(tmp_path, "7-bbbbbbbbbb")
    with caplog.at_level(logging.ERROR):
        assert own.read() is None
    (line,) = [record.getMessage() for record in caplog.records]
    path = tmp_path / "checkpoint-5-50.pt"
    assert line == f"checkpoint {path} is not loaded: job 7-aaaaaaaaaa wrote it, and this is job 7-bbbbbbbbbb"
    for step in (1, 2, 3):
        own.write(1, step, {"step": step})
        assert own.read() == (step, {"step": step}), "another's do not crowd it out"
    assert CheckpointDirectory(tmp_path, "7").read() is None, "nor has a job without nonce written it"
    assert CheckpointDirectory(tmp_path).read() == (50, {"of": "another life"}), "a script by itself asks for no job"


def test_a_checkpoint_of_an_earlier_version_is_loaded(tmp_path: Path) -> None:
    tree = {"step": 4, "epoch": 1, "components": {"model": torch.nn.Linear(1, 1).state_dict()}, "values": {"best": 0.5}}
    torch.save(copy.deepcopy(tree), tmp_path / "checkpoint-2-4.pt")
    for job in (None, "7", "7-bbbbbbbbbb"):
        found = CheckpointDirectory(tmp_path, job).read()
        assert found is not None
        assert found[0] == 4
        assert same(found[1], tree)
