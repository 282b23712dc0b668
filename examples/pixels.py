"""Mean and spread of each pixel of the handwritten digits, by workers that come and go: each takes shards and writes a
file for every shard that the scheduler counts as its own. Nobody waits for anybody.

    python -m examples.pixels out --alone 20        # alone, without a scheduler
    sched submit examples/pixels.yaml               # one to four workers
    python -m examples.pixels out --sum             # once they are done
"""

import argparse
from pathlib import Path

import torch

from examples.digits import load_digits
from scheduler import elastic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--alone", type=int, metavar="SHARDS", help="number of shards without a scheduler")
    parser.add_argument("--sum", action="store_true", help="sum up the written results")
    arguments = parser.parse_args()
    if arguments.sum:
        add_up(arguments.directory)
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    images, _ = load_digits()
    with elastic.ShardQueue(shards=arguments.alone) as shards:
        for shard in shards:
            part = images[shard.part_of(len(images)).start : shard.part_of(len(images)).stop]
            moments = torch.stack([torch.ones(64) * len(part), part.sum(0), part.square().sum(0)])
            write(arguments.directory / f"part-{shard.position}.pt", moments)


def write(path: Path, moments: torch.Tensor) -> None:
    """Whole or not at all. Whoever does a shard again writes the same file again, so that it counts once."""
    partial = path.with_suffix(f".{torch.initial_seed()}")
    torch.save(moments, partial)
    partial.rename(path)


def add_up(directory: Path) -> None:
    parts = [torch.load(path, weights_only=True) for path in directory.glob("part-*.pt")]
    if not parts:
        raise SystemExit(f"{directory} contains no part-*.pt: run the job first")
    count, total, squares = sum(parts)
    mean = total / count
    spread = (squares / count - mean.square()).clamp(min=0).sqrt()
    print(f"{int(count[0])} images, mean {mean.mean():.4f}, spread {spread.mean():.4f}")


if __name__ == "__main__":
    main()
