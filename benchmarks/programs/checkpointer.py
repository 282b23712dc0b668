"""A training for torchrun that goes on from its checkpoint; rank 0 writes down when each step ended, and its size."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

STEP_SECONDS = 0.05
BATCH = 64


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    inputs = torch.randn(BATCH // size, 32)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    checkpoint = Path(os.environ["SCHED_CHECKPOINT_DIR"]) / "checkpoint.pt"
    step = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        step = saved["step"]
        model.load_state_dict(saved["model"])
    parallel = DistributedDataParallel(model)
    while True:
        optimizer.zero_grad()
        mse_loss(parallel(inputs), inputs[:, :1]).backward()
        time.sleep(STEP_SECONDS)
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            partial = checkpoint.with_suffix(".new")
            torch.save({"step": step, "model": model.state_dict()}, partial)
            partial.rename(checkpoint)
            restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            print(json.dumps({"step": step, "size": size, "restarts": restarts, "at": time.time()}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
