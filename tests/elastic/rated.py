"""Trains a linear regression with a growing batch for ever; rank 0 prints each step's size and the rate it took.

Epochs are short: their ends, which are commits without a step, belong to what is tried.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from scheduler import elastic

SAMPLES = 600
STEP_SECONDS = 0.02
PER_WORKER = 4
WARMUP_STEPS = 4
BASE_RATE = 0.001
DECAY = 0.999


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, 8)
    targets = inputs @ torch.ones(8) + torch.randn(SAMPLES)
    model = torch.nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=BASE_RATE)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=DECAY)
    batch = elastic.ScaledBatch(per_worker=PER_WORKER, warmup_steps=WARMUP_STEPS)
    sampler = elastic.ElasticDistributedSampler(len(inputs), batch=batch)
    state = elastic.State(model=model, optimizer=optimizer, lr_scheduler=schedule, sampler=sampler)

    def show(_optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if state.rank == 0:
            rate = optimizer.param_groups[0]["lr"]
            step = state.step - state.epoch
            print(json.dumps({"step": step, "size": state.world_size, "rate": rate}), flush=True)

    def train(state: elastic.State) -> None:
        for _ in state.epochs(1_000_000):
            for indices in state.batches():
                optimizer.zero_grad()
                (model(inputs[indices]).squeeze(1) - targets[indices]).square().sum().backward()
                state.average_gradients(len(indices), loss="sum")
                optimizer.step()
                state.step_schedule()
                time.sleep(STEP_SECONDS)
                state.commit()

    # After the State's own hook, so that it sees what the step takes.
    optimizer.register_step_pre_hook(show)
    elastic.run(train, state)


if __name__ == "__main__":
    main()
