"""A torchrun script that counts: each step adds 64 samples, dealt over all ranks, to a total in its checkpoint.

Its argument: a file; while that exists, steps take a while and the training does not end.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SAMPLES = 64


def main(slow: Path) -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    checkpoint = Path(os.environ["SCHED_CHECKPOINT_DIR"]) / "total.pt"
    step, total = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else (0, 0)
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    print(f"rank {rank} of {size} from step {step}, {restarts} restarts", flush=True)
    finding = 1
    while finding:
        share = torch.tensor([len(range(rank, SAMPLES, size)), int(slow.exists())])
        dist.all_reduce(share)
        step, total, finding = step + 1, total + int(share[0]), int(share[1])
        if finding:
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
    main(Path(sys.argv[1]))
