"""How a job of `runtime: torchrun` is launched: each worker is one torchrun agent. Standard library only.

torchrun reads its own options from variables too (`PET_` and the option's name), and what its command line says wins:
so a command that begins with torchrun stays as it is.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

#: torchrun's options that stand alone; all others take a value.
_ALONE = frozenset({"-m", "--module", "--no-python", "--run-path", "--virtual-local-rank", "--standalone"})
#: What the scheduler says of these, in whose place.
_DECIDED = {
    "--nnodes": "use min_workers and max_workers of the job",
    "--nproc-per-node": "use slots_per_worker of the job",
    "--max-restarts": "use max_retries of the job",
    "--shutdown-timeout": "use grace_seconds of the job",
    "--signals-to-handle": "the rendezvous of the scheduler handles SIGTERM",
    **dict.fromkeys(
        ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--standalone"),
        "the scheduler provides the rendezvous",
    ),
}
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_USAGE = "must start with a script (train.py), python or torchrun; use runtime command for other programs"


def broken_command_rule(command: Sequence[str]) -> str | None:
    """What is wrong with the command of such a job; None where it can be launched."""
    launched = launch_command(command)
    if launched is None:
        return f"{command[0]} cannot be started by torchrun: the command {_USAGE}"
    for option in _options(launched):
        if option in _DECIDED:
            return f"option {option} is not allowed: {_DECIDED[option]}"
    return None


def launch_command(command: Sequence[str]) -> tuple[str, ...] | None:
    """torchrun for this command, or None where it is none that torchrun could start.

    `train.py …` and `torchrun …` run the torchrun of the worker's PATH, `python train.py …` and `python -m module …`
    that of this Python.
    """
    program, *rest = command
    name = PurePosixPath(program).name
    if name == "torchrun":
        return tuple(command) if rest else None
    if name.endswith(".py"):
        return ("torchrun", *command)
    if not name.startswith("python") or name.removeprefix("python").strip("0123456789."):
        return None
    while rest[:1] == ["-u"]:  # torchrun gives it to each process by itself
        rest = rest[1:]
    if rest[:1] == ["-m"] and rest[1:2] and rest[1] in _LAUNCHERS:
        rest = rest[2:]
    elif rest[:1] != ["-m"] and (not rest or rest[0].startswith("-")):
        return None
    return (program, "-m", "torch.distributed.run", *rest) if rest else None


def launch_variables(
    url: str, job_id: int, workers: tuple[int, int], slots: int, grace_seconds: float
) -> dict[str, str]:
    """What torchrun, and the rendezvous that `scheduler.elastic` registers with it, are told by variables.

    Args:
        url: of the scheduler, which is where workers meet.
        workers: fewest and most.
        slots: of each worker, which has one process per slot.
    """
    return {
        "PET_NNODES": f"{workers[0]}:{workers[1]}",
        "PET_NPROC_PER_NODE": str(max(slots, 1)),
        "PET_RDZV_BACKEND": "sched",
        "PET_RDZV_ENDPOINT": url,
        "PET_RDZV_ID": str(job_id),
        # Failures are counted by the scheduler; an agent that has to give up is told so by the rendezvous.
        "PET_MAX_RESTARTS": str(10**6),
        # SIGTERM is the rendezvous's own: the others move on before the processes of who leaves are stopped.
        "PET_SIGNALS_TO_HANDLE": "SIGINT,SIGHUP,SIGQUIT",
        "PET_SHUTDOWN_TIMEOUT": str(max(int(grace_seconds), 1)),
        # Of use with --run-path only: without, processes are started by Python anew.
        "PET_START_METHOD": "fork",
        # All workers have the same number of processes, so nobody needs to ask the others for theirs.
        "TORCH_ELASTIC_WORKER_IDENTICAL": "1",
    }


def _options(launched: Sequence[str]) -> Iterator[str]:
    """The names of torchrun's own options, which stand before the script."""
    words = iter(launched[1:] if launched[1] != "-m" else launched[3:])
    for word in words:
        if not word.startswith("-"):
            return
        name, joined, _ = word.partition("=")
        name = name.replace("_", "-")
        yield name
        short_with_value = len(name) > 2 and not name.startswith("--")
        if not (joined or short_with_value or name in _ALONE):
            next(words, None)
