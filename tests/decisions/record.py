"""A record: for each case the number of its events and a digest of what is decided, in a file of JSON lines."""

import gc
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path

from tests.decisions.cases import WORKLOADS, play
from tests.faults.sandbox import Sandbox, sandbox

#: The one that is part of the project.
RECORDED = Path(__file__).parent / "recorded.jsonl"
#: Fault seeds and scenarios that a process takes at a time; workloads it takes one by one.
CHUNK = 10


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line."""

    case: str
    events: int
    digest: str


def save(path: Path, lines: Sequence[Recorded]) -> None:
    """Write a record."""
    path.write_text("".join(f"{json.dumps(asdict(line))}\n" for line in lines))


def load(path: Path) -> list[Recorded]:
    """Read one back."""
    return [Recorded(**json.loads(line)) for line in path.read_text().splitlines()]


def play_all(names: Sequence[str], jobs: int, directory: Path | None = None) -> Iterator[Recorded]:
    """Lines of these cases as they come; decisions are written as text below the directory, if there is one."""
    play_these = partial(play_chunk, directory=directory)
    if jobs == 1:
        yield from chain.from_iterable(map(play_these, _chunks(names)))
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=gc.freeze) as pool:
        yield from chain.from_iterable(pool.imap_unordered(play_these, _chunks(names)))


def play_chunk(names: Sequence[str], directory: Path | None = None) -> list[Recorded]:
    """Lines of these cases, one after the other in this process."""
    with sandbox() as box:
        return [_play(name, box, directory) for name in names]


def difference(name: str, directory: Path) -> str:
    """Play the case, and tell where it first differs from its text below the directory."""
    path = text_file(directory, name)
    if not path.exists():
        return f"{name}: there is no {path}"
    with sandbox() as box:
        now = play(name, box).text.splitlines()
    for number, (was, line) in enumerate(zip_longest(path.read_text().splitlines(), now), start=1):
        if line != was:
            return f"{name}, line {number}:\n- {was or ''}\n+ {line or ''}"
    return f"{name}: as in {path}"


def text_file(directory: Path, name: str) -> Path:
    """Where the decisions of a case are written as text."""
    return directory / f"{name}.txt"


def _play(name: str, box: Sandbox, directory: Path | None) -> Recorded:
    decided = play(name, box)
    if directory is not None:
        path = text_file(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(decided.text)
    return Recorded(name, len(decided.events), decided.digest)


def _chunks(names: Sequence[str]) -> list[Sequence[str]]:
    quick = [name for name in names if name not in WORKLOADS]
    return [
        *([name] for name in names if name in WORKLOADS),
        *(quick[start : start + CHUNK] for start in range(0, len(quick), CHUNK)),
    ]
