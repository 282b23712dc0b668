"""Trains a small network under DistributedDataParallel, and proves that each sample was seen once in each epoch.

Its arguments: plain, buffers (batch norm), accumulation (under `no_sync`) or compile; and a file: while it exists the
training goes on for ever, one step after the other.
"""

import sys
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from scheduler import elastic  # noqa: E402

SAMPLES = 96


def main(variant: str, slow: Path) -> None:
    """Trains until the file is gone and the epoch ends."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, 8)
    targets = inputs @ torch.ones(8, 1) + torch.randn(SAMPLES, 1)
    middle = torch.nn.BatchNorm1d(16) if variant == "buffers" else torch.nn.Tanh()
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), middle, torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
    # Two samples at least for each rank: batch norm needs them.
    sampler = elastic.ElasticDistributedSampler(SAMPLES, batch=elastic.ScaledBatch(8, rate="adascale"))
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, seen=torch.zeros(SAMPLES))

    def train(state: elastic.State) -> None:
        parallel = DistributedDataParallel(model)
        module = torch.compile(parallel, backend="aot_eager", dynamic=True) if variant == "compile" else parallel
        for epoch in state.epochs(1_000_000):
            # All ranks have to end together.
            if state.all_reduce(torch.tensor([float(slow.exists())])).item() < state.world_size:
                break
            for indices in state.batches():
                optimizer.zero_grad()
                parts = torch.tensor(indices).chunk(2 if variant == "accumulation" else 1)
                for number, part in enumerate(parts, 1):
                    with parallel.no_sync() if number < len(parts) else nullcontext():
                        loss = mse_loss(module(inputs[part]), targets[part], reduction="sum")
                        (loss * sampler.weight / len(indices)).backward()
                optimizer.step()
                step = torch.zeros(SAMPLES)
                step[indices] = 1.0
                state.seen += state.all_reduce(step)
                time.sleep(0.1)
                state.commit()
            if not bool((state.seen == epoch + 1).all()):
                raise AssertionError(f"epoch {epoch}: samples seen {state.seen.min()} to {state.seen.max()} times")
        mine = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        mean = state.all_reduce(mine.clone()) / state.world_size
        if state.rank == 0:
            agree = torch.allclose(mine, mean, rtol=1e-5, atol=1e-6)
            print(f"ended in epoch {epoch}, ranks agree: {agree}, noise scale {state.noise_scale}", flush=True)

    elastic.run(train, state)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
