"""A training of Horovod Elastic that commits each step; rank 0 writes down when each step ended, and its size."""

import json
import sys
import time

import horovod.torch as hvd
import torch
from torch.nn.functional import mse_loss

STEP_SECONDS = 0.05
BATCH = 64


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hvd.init()
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        inputs = torch.randn(BATCH // hvd.size(), 32)
        while True:
            optimizer.zero_grad()
            mse_loss(model(inputs), inputs[:, :1]).backward()
            time.sleep(STEP_SECONDS)
            optimizer.step()
            state.step += 1
            if hvd.rank() == 0:
                print(json.dumps({"step": state.step, "size": hvd.size(), "at": time.time()}), flush=True)
            state.commit()

    train(hvd.elastic.TorchState(model, optimizer, step=0))


if __name__ == "__main__":
    sys.exit(main())
