"""Final loss of a real training (digits) whose workers go 1 → 4 → 2, by each rule for the learning rate.

All end at the same number of steps of the base size, that of one worker: what a rule keeps of the training shows in the
loss, what the larger batches were good for in the number of steps.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, median

#: Workers, and steps of the base size at which the phase ends.
PHASES = ((1, 150), (4, 600), (2, 900))
SEEDS = (1, 2, 3)
RULES = ("constant", "linear", "sqrt", "adascale")
_PROGRAM = Path(__file__).parent / "programs" / "rates.py"
_TRAINING_SECONDS_MAX = 300.0


def run() -> list[Figure]:
    undisturbed = ((1, PHASES[-1][1]),)
    figures = _figures("one worker throughout", [_train("constant", seed, undisturbed) for seed in SEEDS])
    for rule in RULES:
        figures += _figures(rule, [_train(rule, seed, PHASES) for seed in SEEDS])
    return figures


def _figures(name: str, ends: list[dict[str, Any]]) -> list[Figure]:
    losses = [end["loss"] for end in ends]
    noise = median([end["noise_scale"] for end in ends])
    note = f"{min(losses):.2g} to {max(losses):.2g} over {len(SEEDS)} seeds; noise scale {noise:.0f} samples"
    return [
        Figure(f"training loss, {name}", median(losses), "nats", note=note),
        Figure(f"test accuracy, {name}", median([100.0 * end["accuracy"] for end in ends]), "%"),
        Figure(f"steps, {name}", median([end["steps"] for end in ends]), "steps"),
    ]


def _train(rule: str, seed: int, phases: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Where it stands in the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCHED_")}
    environment |= {"PYTHONPATH": str(_PROGRAM.parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(_PROGRAM), rule, str(seed), *(f"{size}:{steps}" for size, steps in phases)]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_TRAINING_SECONDS_MAX, check=True
    )
    end: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return end
