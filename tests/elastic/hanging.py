"""An elastic script of which one rank hangs in a step, once, where its thread that reports goes on.

Its arguments: a file, the group's timeout and how long a step takes, in seconds. The rank that hangs writes its id into
the file.
"""

import os
import sys
import time
from pathlib import Path

import torch

from scheduler import elastic

STEPS = 60
HANGS_AT = 10


def main(hung: Path, group_timeout_seconds: float, step_seconds: float) -> None:
    """Adds one a step and rank."""
    torch.set_num_threads(1)
    state = elastic.State(total=torch.zeros(1), taken=torch.zeros(STEPS, dtype=torch.int32))

    def train(state: elastic.State) -> None:
        print(f"rank {state.rank} of {state.world_size} from step {state.step}", flush=True)
        while state.step < STEPS:
            if state.step == HANGS_AT and state.rank == 1 and not hung.exists():
                hung.write_text(os.environ["SCHED_WORKER_ID"])
                while True:
                    time.sleep(1)
            share = torch.zeros(1)
            share[0] = 1.0 / state.world_size
            state.total += state.all_reduce(share)
            state.taken[state.step] += 1
            if state.rank == 0:
                print(f"step {state.step} of {state.world_size} workers", flush=True)
            time.sleep(step_seconds)
            state.commit()
        if state.rank == 0:
            print(f"every step taken {state.taken.unique().tolist()} times, total {state.total.item():.0f}", flush=True)

    elastic.run(train, state, group_timeout_seconds=group_timeout_seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
