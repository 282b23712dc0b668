"""The gradient noise under DistributedDataParallel: the numbers of `average_gradients`, and what is not measured."""

import json
from typing import Any

import pytest

from tests.elastic.processes import SECONDS_MAX, fixed_group, free_port

# Each step is taken twice: by a copy of the model whose gradients the library averages, and by DDP.
BOTH = """
import copy, json, os, sys
if os.environ.get("HOSTS") == "several":
    os.environ["NCCL_HOSTID"] = "host-" + os.environ["RANK"]
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from scheduler import elastic
from scheduler.elastic.training.updates import Updates

device = os.environ.get("DEVICE", "cpu")
torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(130, 8)
targets = (inputs @ torch.ones(8) + torch.randn(130)).to(device)
inputs = inputs.to(device)

def train_both(kind, policy):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
    model.append(torch.nn.Linear(64, 1))
    if kind == "unused":
        model[1].spare = torch.nn.Linear(3, 3)
    model.to(device)
    copied = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    reference = Updates(torch.optim.SGD(copied.parameters(), lr=0.01), policy)
    sampler = elastic.ElasticDistributedSampler(130, batch=policy)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)
    told, backends = [], []

    def losses(module, indices):
        return (module(inputs[indices]).squeeze(1) - targets[indices]).square()

    def backward(wrapped, indices):
        weight = sampler.weight / max(len(indices), 1)
        if kind == "accumulated":
            with wrapped.no_sync():
                for index in indices[:-1]:
                    (losses(wrapped, [index]).sum() * weight).backward()
            (losses(wrapped, indices[-1:]).sum() * weight).backward()
        elif kind == "twice":
            for part in (indices[:1], indices[1:]):
                (losses(wrapped, part).sum() * weight).backward()
        else:
            (losses(wrapped, indices).sum() * weight).backward()

    def train(state):
        reference.set_group(state._group)
        backends.append(torch.distributed.get_backend_config())
        parallel = DistributedDataParallel(
            model,
            bucket_cap_mb=None if kind == "compiled" else 0.01,
            find_unused_parameters=kind == "unused",
            gradient_as_bucket_view=kind == "views",
        )
        if kind == "half":
            parallel.register_comm_hook(None, state.measured(bf16_compress_hook))
        elif kind == "own":
            parallel.register_comm_hook(None, allreduce_hook)
        wrapped = torch.compile(parallel, backend="aot_eager") if kind == "compiled" else parallel
        for _ in state.epochs(2):
            for indices in state.batches():
                reference._optimizer.zero_grad()
                losses(copied, indices).sum().backward()
                reference.average(state._group, len(indices), True, False)
                reference._optimizer.step()
                optimizer.zero_grad()
                backward(wrapped, indices)
                optimizer.step()
                measures = (reference, state._updates)
                told.append([*(each.noise_scale for each in measures), *(each.rates.factor for each in measures)])
                state.commit()
                reference.settle()
        reference.leave_group()

    elastic.run(train, state)
    apart = max((a - b).detach().abs().max().item() for a, b in zip(model.parameters(), copied.parameters()))
    return {"told": told, "apart": apart, "backends": backends}

policies = {
    "even": elastic.ScaledBatch(5, rate="adascale", warmup_steps=0),
    "linear": elastic.ScaledBatch(5, warmup_steps=0),
    "uneven": elastic.ConstantBatch(8),
}
found = {}
for argument in sys.argv[1:]:
    kind, policy, port = argument.split("/")
    os.environ["MASTER_PORT"] = port
    found[kind + "/" + policy] = train_both(kind, policies[policy])
print(json.dumps(found), flush=True)
"""
MEASURED = ("plain/even", "plain/uneven", "accumulated/uneven", "views/even", "unused/even", "half/even")
UNMEASURED = ("twice/linear", "own/linear")


def train_both(size: int, *kinds: str, **variables: str) -> list[dict[str, Any]]:
    """What each rank found, by kind. Variables: `DEVICE`; `HOSTS=several`, so that ranks on one GPU use NCCL."""
    arguments = [f"{kind}/{free_port()}" for kind in kinds]
    with fixed_group(size, "-c", BOTH, *arguments, **variables) as workers:
        outputs = [worker.communicate(timeout=SECONDS_MAX)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers), outputs
    return [json.loads(output.splitlines()[-1]) for output in outputs]


@pytest.mark.torch
@pytest.mark.parametrize("size", [1, 3])
def test_ddp_measures_what_averaging_does_and_adascale_gains_as_much(size: int) -> None:
    measures_as_averaging(size, train_both(size, *MEASURED))


def measures_as_averaging(size: int, ranks: list[dict[str, Any]]) -> None:
    """For all kinds of `MEASURED`."""
    for kind in MEASURED:
        assert all(found[kind]["told"] == ranks[0][kind]["told"] for found in ranks), "all ranks know the same"
        rounding = 0.02 if kind.startswith("half") else 1e-4
        told = ranks[0][kind]["told"]
        # Buckets are laid out anew after the first step: with one rank that pair of steps is not looked at.
        for reference, measured, factor, gained in told[-1:] if size == 1 else told[1:]:
            assert measured == pytest.approx(reference, rel=0.2 if size == 1 else rounding), kind
            assert gained == pytest.approx(factor, rel=0.2 if size == 1 else rounding), kind
        assert ranks[0][kind]["apart"] < (0.05 if kind.startswith("half") else 1e-4), "the mean over all samples"


@pytest.mark.torch
def test_a_model_under_compile_is_measured_like_any() -> None:
    (alone,) = train_both(1, "compiled/even")
    reference, measured, _, _ = alone["compiled/even"]["told"][-1]
    assert measured == pytest.approx(reference, rel=0.2)
    assert alone["compiled/even"]["apart"] < 1e-4


@pytest.mark.torch
def test_gradients_averaged_twice_in_a_step_and_foreign_hooks_are_not_measured() -> None:
    for found in train_both(2, *UNMEASURED):
        for kind in UNMEASURED:
            assert [measured for _, measured, _, _ in found[kind]["told"]] == [None] * len(found[kind]["told"]), kind
            assert found[kind]["apart"] < 1e-4
