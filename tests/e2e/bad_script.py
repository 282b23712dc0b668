"""A worker for tests that does what a script should not, as its first argument says, under any runtime.

wild: prints a flood, leaves children in sessions of their own, is deaf to SIGTERM, and never comes to the end of a step
early: the worker of rank 1 exits with 0 in the middle of a training
diverged: goes on training, and telling of it, with a loss that is no number any more
"""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from scheduler import elastic

FLOOD_BYTES = 1 << 28
STEPS = 40


def early_without_the_library() -> None:
    """Adds up what all ranks bring; goes on from rank 0's checkpoint."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    checkpoint = Path(os.environ["SCHED_CHECKPOINT_DIR"]) / "taken.pt"
    taken = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else []
    while len(taken) < STEPS:
        if rank == 1 and len(taken) == STEPS // 2:
            os._exit(0)
        shares = torch.zeros(size)
        shares[rank] = 1 / size
        dist.all_reduce(shares)
        taken.append(round(float(shares.sum())))
        if rank == 0:
            torch.save(taken, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)
    print(f"seen once: {sum(taken)} of {STEPS} by {size}", flush=True)


def main() -> None:
    kind, story = sys.argv[1], Path(sys.argv[2])
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = elastic.ElasticDistributedSampler(STEPS * 4, batch=4)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, seen=torch.zeros(STEPS * 4))

    def wild(_: elastic.State | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(3):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        chunk = b"x" * 1023 + b"\n"
        for _ in range(FLOOD_BYTES // len(chunk) // 1024):
            sys.stdout.buffer.write(chunk * 1024)
        sys.stdout.flush()
        story.write_text("wild")
        while True:
            time.sleep(1)

    def early(state: elastic.State) -> None:
        for _ in state.epochs(1):
            for indices in state.batches():
                if state.rank == 1 and state.step == STEPS // 2:
                    os._exit(0)
                optimizer.zero_grad()
                model(torch.ones(len(indices), 1)).sum().backward()
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                step = torch.zeros_like(state.seen)
                step[indices] += 1
                state.seen += state.all_reduce(step)
                state.commit()
        print(f"seen once: {int((state.seen == 1).sum())} of {len(state.seen)}", flush=True)

    def diverged(state: elastic.State) -> None:
        print(f"from step {state.step}", flush=True)
        for _ in state.epochs(1_000_000):
            for indices in state.batches():
                optimizer.zero_grad()
                (model(torch.ones(len(indices), 1)).sum() * math.nan).backward()
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                state.report(loss=math.nan, accuracy=0.5)
                time.sleep(0.05)
                state.commit()

    elastically = not os.environ.get("TORCHELASTIC_RUN_ID") and os.environ["BAD_RUNTIME"] == "elastic"
    if kind == "early":
        elastic.run(early, state) if elastically else early_without_the_library()
    elif elastically:
        elastic.run(diverged if kind == "diverged" else wild, state)
    else:
        wild(None)


if __name__ == "__main__":
    main()
