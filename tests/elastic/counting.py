"""A torchrun script that counts: each step adds 64 samples, dealt over all ranks, to a total in its checkpoint.

Its arguments: how many steps, and a file; while that exists, steps take a while.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SAMPLES = 64


def main(steps: int, slow: Path) -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    checkpoint = Path(os.environ["SCHED_CHECKPOINT_DIR"]) / "total.pt"
    step, total = torch.load(checkpoint) if checkpoint.exists() else (0, 0)
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    print(f"rank {rank} of {size} from step {step}, {restarts} restarts", flush=True)
    while step < steps:
        share = torch.tensor(len(range(rank, SAMPLES, size)))
        dist.all_reduce(share)
        step, total = step + 1, total + int(share)
        if slow.exists():
            time.sleep(0.1)
        if rank == 0:
            partial = checkpoint.with_suffix(".new")
            torch.save((step, total), partial)
            partial.rename(checkpoint)
            print(f"step {step} of {size} workers", flush=True)
    dist.barrier()
    if rank == 0:
        print(f"total {total} after {step} steps", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
