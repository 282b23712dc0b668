"""An elastic training under DistributedDataParallel of which each rank writes down when each step ended.

    parallel.py VARIANT

plain; buffers (batch norm); accumulation (three of four micro-batches under `no_sync`); compile (torch.compile, without
a C++ compiler); average: without DDP, by `average_gradients`, for comparison.
"""

import json
import sys
import time
from contextlib import nullcontext

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from scheduler import elastic

SAMPLES, BATCH, STEP_SECONDS = 64_000, 48, 0.02
MICRO_BATCHES = 4
VARIANTS = ("average", "plain", "buffers", "accumulation", "compile")


def main(variant: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, 32)
    middle = torch.nn.BatchNorm1d(256) if variant == "buffers" else torch.nn.ReLU()
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), middle, torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = elastic.ElasticDistributedSampler(SAMPLES, batch=BATCH)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)

    def backward(module: torch.nn.Module, indices: list[int]) -> None:
        weight = 1.0 if variant == "average" else sampler.weight / len(indices)
        parts = torch.tensor(indices).chunk(MICRO_BATCHES if variant == "accumulation" else 1)
        for number, part in enumerate(parts, 1):
            waits = number < len(parts) and isinstance(module, DistributedDataParallel)
            with module.no_sync() if waits else nullcontext():  # type: ignore[operator]
                (mse_loss(module(inputs[part]), inputs[part, :1], reduction="sum") * weight).backward()

    def train(state: elastic.State) -> None:
        module: torch.nn.Module = model if variant == "average" else DistributedDataParallel(model)
        if variant == "compile":
            module = torch.compile(module, backend="aot_eager", dynamic=True)
        for _ in state.epochs(1_000):
            for indices in state.batches():
                optimizer.zero_grad()
                backward(module, indices)
                if variant == "average":
                    state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                time.sleep(STEP_SECONDS)
                told = {"step": state.step, "size": state.world_size, "rank": state.rank, "at": time.time()}
                print(json.dumps({**told, "generation": state.generation}), flush=True)
                state.commit()

    elastic.run(train, state)


if __name__ == "__main__":
    main(sys.argv[1])
