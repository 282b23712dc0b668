"""An elastic script that counts how often it has seen each sample, and tells of every step.

Its arguments: a file, and the group's timeout in seconds. While the file exists, steps take a while and the training
does not end; it ends with the epoch in which no worker finds the file any more.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402

from scheduler import elastic  # noqa: E402

BATCH = 64
STEPS_OF_EPOCH = 10
SAMPLES = BATCH * STEPS_OF_EPOCH
EPOCHS_MAX = 1_000_000
#: What the computation of one sample takes: three workers make a step in 0.3 s.
SAMPLE_SECONDS = 0.014


def main(slow: Path, group_timeout_seconds: float) -> None:
    """Trains on nothing."""
    torch.set_num_threads(1)
    sampler = elastic.ElasticDistributedSampler(SAMPLES, batch=BATCH)
    state = elastic.State(sampler=sampler, seen=torch.zeros(SAMPLES, dtype=torch.int32))

    def train(state: elastic.State) -> None:
        print(f"rank {state.rank} of {state.world_size} from step {state.step}", flush=True)
        for _ in state.epochs(EPOCHS_MAX):
            for indices in state.batches():
                step = torch.zeros_like(state.seen)
                step[indices] += 1
                state.seen += state.all_reduce(step)
                if slow.exists():
                    time.sleep(SAMPLE_SECONDS * len(indices))
                if state.rank == 0:
                    print(f"step {state.step} of {state.world_size} workers", flush=True)
                state.commit()
            finding = state.all_reduce(torch.tensor([slow.exists()], dtype=torch.int32))
            if not finding.any():
                break
        if state.rank == 0:
            times = state.seen.unique().tolist()
            print(f"every sample seen {times} times in {state.epoch + 1} epochs and {state.step} commits", flush=True)

    elastic.run(train, state, group_timeout_seconds=group_timeout_seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
