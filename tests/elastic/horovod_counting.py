"""A Horovod Elastic script that counts: each step adds 64 samples, dealt over all ranks, to a total, and commits.

Its argument: a file; while that exists, steps take a while and the training does not end.
"""

import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch

SAMPLES = 64


def main(slow: Path) -> None:
    hvd.init()

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        print(f"rank {hvd.rank()} of {hvd.size()} from step {state.step}", flush=True)
        finding = 1
        while finding:
            share = torch.tensor([len(range(hvd.rank(), SAMPLES, hvd.size())), int(slow.exists())])
            total, finding = hvd.allreduce(share, op=hvd.Sum, name="share").tolist()
            state.total += total
            state.step += 1
            if finding:
                time.sleep(0.2)
            # By all: one that is killed may not get to it for a step that the others commit.
            print(f"step {state.step} of {hvd.size()} workers", flush=True)
            state.commit()

    state = hvd.elastic.TorchState(step=0, total=0)
    train(state)
    if hvd.rank() == 0:
        print(f"total {state.total} after {state.step} steps", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
