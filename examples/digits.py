"""Trains a small network on scikit-learn's handwritten digits, elastically; the README's and the demo's example.

It also proves what it claims: a counter per sample travels with the state, and at the end of each epoch every sample
must have been seen exactly once, however often the workers changed.

    python examples/digits.py --epochs 5                # alone, without a scheduler
    sched submit examples/digits.yaml                   # as an elastic job
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import torch
from torch.nn.functional import cross_entropy

from scheduler import elastic

TEST_SAMPLES = 360


def load_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 1,797 images as rows of 64 numbers in 0..1, and their labels.

    Read from the file inside the package: importing scikit-learn takes as long as importing torch.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit("scikit-learn is not installed: pip install scikit-learn")
    table = numpy.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    values = torch.from_numpy(table)
    shuffled = values[torch.randperm(len(values), generator=torch.Generator().manual_seed(0))]
    return (shuffled[:, :-1] / 16.0).float(), shuffled[:, -1].long()


def main(pause: Callable[[float], None] = time.sleep) -> None:
    """Trains; `pause` is called with what is left of each step's least duration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="number of samples per step over all workers")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="minimum duration of a step, for demos")
    parser.add_argument(
        "--sample-seconds",
        type=float,
        default=0.0,
        help="minimum duration of a sample's computation: more workers share the samples of a step and are faster",
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    inputs, targets = load_digits()
    test_inputs, test_targets = inputs[:TEST_SAMPLES], targets[:TEST_SAMPLES]
    inputs, targets = inputs[TEST_SAMPLES:], targets[TEST_SAMPLES:]
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = elastic.ElasticDistributedSampler(len(inputs), batch=options.batch, seed=options.seed)
    seen = torch.zeros(len(inputs), dtype=torch.int32)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, seen=seen)

    def train(state: elastic.State) -> None:
        print(f"generation {state.generation}: rank {state.rank} of {state.world_size}, step {state.step}", flush=True)
        for epoch in state.epochs(options.epochs):
            for indices in state.batches():
                began = time.monotonic()
                optimizer.zero_grad()
                loss = cross_entropy(model(inputs[indices]), targets[indices], reduction="sum")
                loss.backward()
                # Stands for the time that a larger model would compute.
                least = max(options.step_seconds, options.sample_seconds * len(indices))
                pause(max(0.0, least - (time.monotonic() - began)))
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                count(state, indices)
                state.commit()
            times = state.seen - epoch
            if not bool((times == 1).all()):
                raise AssertionError(f"epoch {epoch}: samples seen {times.min()} to {times.max()} times")
            if state.rank == 0:
                print(f"epoch {epoch}: every sample seen exactly once", flush=True)
        accuracy = evaluate()
        state.report(accuracy=accuracy)
        if state.rank == 0:
            print(f"accuracy {accuracy:.4f} after {state.step} steps", flush=True)

    def evaluate() -> float:
        with torch.no_grad():
            return float((model(test_inputs).argmax(dim=1) == test_targets).float().mean())

    elastic.run(train, state)


def count(state: elastic.State, indices: list[int]) -> None:
    """Adds this step's samples, of all workers, to the counter."""
    step = torch.zeros_like(state.seen)
    step[indices] += 1
    state.seen += state.all_reduce(step)


if __name__ == "__main__":
    main()
