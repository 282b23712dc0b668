"""An elastic training whose rank 0 writes down when each step ended, and how many workers took it."""

import json
import sys
import time

import torch
from torch.nn.functional import mse_loss

from scheduler import elastic

STEP_SECONDS = 0.05
SAMPLES, BATCH = 64_000, 64


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, 32)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = elastic.ElasticDistributedSampler(SAMPLES, batch=BATCH)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)

    def train(state: elastic.State) -> None:
        for _ in state.epochs(1_000):
            for indices in state.batches():
                optimizer.zero_grad()
                loss = mse_loss(model(inputs[indices]), inputs[indices, :1], reduction="sum")
                loss.backward()
                time.sleep(STEP_SECONDS)
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                if state.rank == 0:
                    print(json.dumps({"step": state.step, "size": state.world_size, "at": time.time()}), flush=True)
                state.commit()

    elastic.run(train, state)


if __name__ == "__main__":
    sys.exit(main())
