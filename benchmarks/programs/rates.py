"""A training on handwritten digits at sizes that change, by one rule for the learning rate.

    rates.py RULE SEED WORKERS:BASE_STEPS...

Each phase is a group of its own size. It resumes from the checkpoint of the phase before, trains until BASE_STEPS steps
of the base size are done, and then stops itself as the scheduler would. The last line is JSON: where the training
stands. The ranks are forked, so that torch is imported once.
"""

import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from scheduler import elastic

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from digits import TEST_SAMPLES, load_digits

PER_WORKER = 16
WARMUP_STEPS = 20
RULES: dict[str, int | elastic.BatchPolicy] = {
    "constant": PER_WORKER,
    "linear": elastic.ScaledBatch(PER_WORKER, warmup_steps=WARMUP_STEPS),
    "sqrt": elastic.ScaledBatch(PER_WORKER, warmup_steps=WARMUP_STEPS, rate="sqrt"),
    "adascale": elastic.ScaledBatch(PER_WORKER, warmup_steps=WARMUP_STEPS, rate="adascale"),
}
EXIT_DRAINED = 64


def main() -> int:
    rule, seed, *phases = sys.argv[1:]
    torch.set_num_threads(1)
    data = load_digits()
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as checkpoints:
        os.environ["SCHED_CHECKPOINT_DIR"] = checkpoints
        for phase in phases:
            size, base_steps = map(int, phase.split(":"))
            told = run_phase(data, rule, int(seed), size, base_steps)
    print(json.dumps(told))
    return 0


def run_phase(
    data: tuple[torch.Tensor, torch.Tensor], rule: str, seed: int, size: int, base_steps: int
) -> dict[str, float]:
    """Where the training stands at its end, as rank 0 tells."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    forked = multiprocessing.get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)
    ranks = [
        forked.Process(target=run_rank, args=(rank, sender, data, rule, seed, base_steps), daemon=True)
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    sender.close()
    for process in ranks:
        process.join()
    codes = [process.exitcode for process in ranks]
    if any(code != EXIT_DRAINED for code in codes):
        raise SystemExit(f"a phase of {size} workers failed: exit codes {codes}")
    told: dict[str, float] = receiver.recv()
    return told


def run_rank(
    rank: int,
    sender: Connection,
    data: tuple[torch.Tensor, torch.Tensor],
    rule: str,
    seed: int,
    base_steps: int,
) -> None:
    """Trains as this rank to the end of the phase."""
    os.environ["RANK"] = str(rank)
    torch.manual_seed(seed)
    inputs, targets = (tensor[TEST_SAMPLES:] for tensor in data)
    test_inputs, test_targets = (tensor[:TEST_SAMPLES] for tensor in data)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = elastic.ElasticDistributedSampler(len(inputs), batch=RULES[rule], seed=seed)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)

    def train(state: elastic.State) -> None:
        for _ in state.epochs(1_000_000):
            for indices in state.batches():
                optimizer.zero_grad()
                cross_entropy(model(inputs[indices]), targets[indices], reduction="sum").backward()
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                if state.base_steps >= base_steps:
                    end_phase(state)
                state.commit()

    def end_phase(state: elastic.State) -> None:
        if state.rank == 0:
            with torch.no_grad():
                loss = float(cross_entropy(model(inputs), targets))
                accuracy = float((model(test_inputs).argmax(dim=1) == test_targets).float().mean())
            told = {"loss": loss, "accuracy": accuracy, "steps": state.step + 1, "noise_scale": state.noise_scale}
            sender.send(told)
        os.kill(os.getpid(), signal.SIGTERM)

    elastic.run(train, state)


if __name__ == "__main__":
    sys.exit(main())
