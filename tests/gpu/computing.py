"""Multiplies matrices on its GPU for ever; holds as many MiB more as the file named on the command line says."""

import os
import sys
import time
from pathlib import Path

import torch


def main(wanted: Path) -> None:
    """Tells how many multiplications it has done, twice a second."""
    print(f"sees {os.environ['CUDA_VISIBLE_DEVICES']}: {torch.cuda.device_count()} GPUs", flush=True)
    matrix = torch.rand(4096, 4096, device="cuda")
    held: torch.Tensor | None = None
    done, told_at = 0, time.monotonic()
    while True:
        mebibytes = int(wanted.read_text()) if wanted.exists() else 0
        if mebibytes != (0 if held is None else held.numel() >> 20):
            held = None
            torch.cuda.empty_cache()
            held = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda") if mebibytes else None
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()
        done += 20
        if time.monotonic() - told_at > 0.5:
            told_at = time.monotonic()
            print(f"{done} multiplications", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
