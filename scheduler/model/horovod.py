"""How a job of `runtime: horovod` is launched: a driver, which runs horovodrun, beside workers that hold the slots.

The driver is the job's fixed group. Each worker starts the processes that horovodrun wants on it, and the end of the
driver is the end of the job. Standard library only.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from scheduler.model.fixed import FixedGroup
from scheduler.model.shape import WorkerShape

_MODULE = "scheduler.elastic.horovod"
_LAUNCHER = "horovod.runner.launch"
#: horovodrun's options that stand alone; all others take a value.
_ALONE = frozenset(
    {
        *("--disable-cache", "--verbose", "--tcp", "--gloo", "-prefix-timestamp", "--prefix-output-with-timestamp"),
        *("--hierarchical-allreduce", "--no-hierarchical-allreduce", "--torus-allreduce", "--no-torus-allreduce"),
        *("--hierarchical-allgather", "--no-hierarchical-allgather", "--autotune", "--no-autotune"),
        *("--timeline-mark-cycles", "--no-timeline-mark-cycles", "--stall-check", "--no-stall-check"),
        *("--mpi-threads-disable", "--no-mpi-threads-disable", "--log-with-timestamp", "--log-without-timestamp"),
        *("--log-hide-timestamp", "--no-log-hide-timestamp"),
    }
)
_SIZE = "use min_workers, max_workers and slots_per_worker of the job"
_HOSTS = "the scheduler provides the hosts"
_REACHED = "the workers start the processes"
#: What the scheduler says of these, in whose place.
_DECIDED = {
    **dict.fromkeys(("-np", "--num-proc", "--min-np", "--min-num-proc", "--max-np", "--max-num-proc"), _SIZE),
    "--slots-per-host": _SIZE,
    **dict.fromkeys(("-H", "--hosts", "-hostfile", "--hostfile", "--host-discovery-script"), _HOSTS),
    "--blacklist-cooldown-range": _HOSTS,
    "--elastic-timeout": _HOSTS,
    **dict.fromkeys(("-p", "--ssh-port", "-i", "--ssh-identity-file"), _REACHED),
    **dict.fromkeys(("--mpi", "--jsrun"), "only Gloo supports elastic jobs"),
    "--output-filename": "each process writes to the log of its worker",
}


def broken_command_rule(command: Sequence[str]) -> str | None:
    """What is wrong with the command of such a job; None where it can be launched."""
    if PurePosixPath(command[0]).name != "horovodrun":
        return None
    for option, _ in _options(command):
        if option in _DECIDED:
            return f"option {option} is not allowed: {_DECIDED[option]}"
    return None if _program(command) else "horovodrun needs a program to run: horovodrun python train.py"


def driver_group(
    command: Sequence[str], node_selector: tuple[tuple[str, str], ...], pod_template: str | None
) -> FixedGroup:
    """The driver: one process that needs no slot, on a node and in a pod like those of the workers."""
    return FixedGroup(
        replicas=1,
        command=tuple(command),
        shape=WorkerShape(slots=0, node_selector=node_selector),
        pod_template=pod_template,
    )


def driver_command(command: Sequence[str]) -> tuple[str, ...]:
    """What the driver runs: it is told how to call horovodrun, and what to give to it."""
    python = _python(command)
    launcher, *rest = command
    if PurePosixPath(launcher).name == "horovodrun":
        return (python, "-m", _MODULE, "drive", launcher, "--", *rest)
    return (python, "-m", _MODULE, "drive", python, "-m", _LAUNCHER, "--", *_program(command))


def worker_command(command: Sequence[str], slots: int) -> tuple[str, ...]:
    """What a worker runs: it starts the processes of its slots when horovodrun says so.

    A script of Python is told how many to have ready, which have imported Horovod before anybody waits for them.
    """
    warm = slots if _is_python(_program(command)[0]) else 0
    return (_python(command), "-m", _MODULE, "hold", str(warm))


def worker_variables() -> dict[str, str]:
    """Where the job's own variables say nothing else."""
    return {"HOROVOD_GLOO_TIMEOUT_SECONDS": "30"}


def _is_python(word: str) -> bool:
    name = PurePosixPath(word).name
    return name.startswith("python") and not name.removeprefix("python").strip("0123456789.")


def _program(command: Sequence[str]) -> Sequence[str]:
    """What horovodrun is to start."""
    if PurePosixPath(command[0]).name == "horovodrun":
        *_, start = (1, *(end for _, end in _options(command)))
        return command[start:]
    return ("python3", *command) if command[0].endswith(".py") else command


def _python(command: Sequence[str]) -> str:
    """A Python that has this package beside Horovod: the program's own, else that of horovodrun or of PATH."""
    program = _program(command)[0]
    if _is_python(program):
        return program
    launcher = PurePosixPath(command[0])
    beside = launcher.name == "horovodrun" and len(launcher.parts) > 1
    return str(launcher.with_name("python3")) if beside else "python3"


def _options(command: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The names of horovodrun's own options, which stand before the program, and where the next word is."""
    at = 1
    while at < len(command) and command[at].startswith("-"):
        name, joined, _ = command[at].partition("=")
        at += 1 if joined or name in _ALONE else 2
        yield name, at
