"""Start one worker's first process: its own session and process group, its log as output. Standard library only."""

import os
import signal
from collections.abc import Mapping, Sequence

#: Python and its libraries ignore some of these; a worker starts with the kernel's defaults.
_DEFAULT_SIGNALS = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


_PATH_SHOWN_MAX = 500


class LaunchError(Exception):
    """It could not be started; the message is one line for people."""


def launch(command: Sequence[str], env: Mapping[str, str], workdir: str, output: int) -> int:
    """Pid of the new process, whose program runs already; it shares stdin with this one. Raises `LaunchError`.

    Moves this process into `workdir` for a moment, so it must have no other thread.
    """
    try:
        os.chdir(workdir)
    except (OSError, ValueError) as error:
        raise LaunchError(f"working directory {workdir}: {_reason(error)}") from None
    try:
        return os.posix_spawn(
            _find(command[0], env.get("PATH", os.defpath)),
            list(command),
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"{command[0]}: {_reason(error)}") from None
    finally:
        os.chdir("/")


def _find(program: str, path: str) -> str:
    """As a shell looks a program up, seen from the worker's directory and its PATH."""
    if "/" in program:
        return program
    found = None
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, program)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            found = found or candidate
    if found is None:
        raise FileNotFoundError(2, f"not found in PATH, which is {_shortened(path)}")
    return found


def _shortened(path: str) -> str:
    """For one line of people's. Programs are found in the first folders, mostly."""
    shown = " ".join(path[: _PATH_SHOWN_MAX + 1].split())
    return (
        shown if len(path) <= _PATH_SHOWN_MAX else f"{shown[:_PATH_SHOWN_MAX]}… ({path.count(os.pathsep) + 1} folders)"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        # A script is refused with this when it does not begin with "#!".
        hint = " (a script needs a first line such as #!/bin/sh)" if error.errno == 8 else ""
        return f"{error.strerror}{hint}"
    return str(error)
