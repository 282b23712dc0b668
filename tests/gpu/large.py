"""Commits a model of a gigabyte on the GPU, and goes back to a commit; prints how long that takes."""

import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402

from scheduler import elastic  # noqa: E402

LAYERS, WIDTH = 64, 2048
COMMITS = 10


def main() -> None:
    """Prints milliseconds of a commit, and of going back to one."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))).cuda()
    size_mib = sum(parameter.nbytes for parameter in model.parameters()) >> 20
    state = elastic.State(model=model)

    def train(state: elastic.State) -> None:
        state.commit()
        took = []
        for _ in range(COMMITS):
            began = time.monotonic()
            state.commit()
            torch.cuda.synchronize()
            took.append(time.monotonic() - began)
        kept = model[0].weight.clone()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        began = time.monotonic()
        state.restore()
        torch.cuda.synchronize()
        back = time.monotonic() - began
        print(f"{size_mib} MiB: commit {statistics.median(took) * 1000:.2f} ms, back {back * 1000:.2f} ms")
        print(f"as committed: {torch.equal(kept, model[0].weight)}")
        print(f"holds {torch.cuda.max_memory_allocated() >> 20} MiB at most", flush=True)

    elastic.run(train, state)


if __name__ == "__main__":
    main()
