"""Start one worker's first process: its own session and process group, its log as output. Standard library only."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence

#: Python and its libraries ignore some of these; a worker starts with the kernel's defaults.
DEFAULT_SIGNALS = (
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


_SHOWN_MAX = 400

#: What is wrong and what would be right, by error. These are of what the job asks for, so that no further try can do:
#: any other error may be the machine's trouble, which passes.
_WRONG_WORKDIR = {
    errno.ENOENT: "does not exist: create it, or give another",
    errno.ENOTDIR: "is not a directory: give one",
    errno.EACCES: "may not be entered by {user}: change its permissions, or give another",
    errno.ELOOP: "is a symbolic link that leads to itself: give a directory",
    errno.ENAMETOOLONG: "has too long a name: give a shorter one",
}
_WRONG_PROGRAM = {
    errno.ENOENT: "does not exist: correct its path, which is seen from the working directory",
    errno.ENOTDIR: "does not exist, since a part of its path is not a directory: correct its path",
    errno.EACCES: "may not be executed: give an executable file (chmod +x)",
    errno.ENOEXEC: "is not a program: a script needs a first line such as #!/bin/sh",
    errno.ELOOP: "is a symbolic link that leads to itself: give a file",
    errno.ENAMETOOLONG: "has too long a name: give a shorter one",
    errno.E2BIG: "has a command line or variables that are too long: pass them in a file",
}
_NO_INTERPRETER = "needs an interpreter that does not exist: correct its first line"


class LaunchError(Exception):
    """It could not be started; the message is one line for people.

    `for_good`: no further try on this machine can start it.
    """

    def __init__(self, message: str, *, for_good: bool) -> None:
        super().__init__(message)
        self.for_good = for_good


def launch(command: Sequence[str], env: Mapping[str, str], workdir: str, output: int) -> int:
    """Pid of the new process, whose program runs already; it shares stdin with this one. Raises `LaunchError`.

    Moves this process into `workdir` for a moment, so it must have no other thread.
    """
    enter(workdir, "the user of the daemon")
    try:
        return os.posix_spawn(
            find_program(command[0], env.get("PATH", os.defpath)),
            list(command),
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=DEFAULT_SIGNALS,
        )
    except (OSError, ValueError) as error:
        raise program_error(command[0], error) from None
    finally:
        os.chdir("/")


def enter(workdir: str, user: str) -> None:
    """Make it the directory of this process, which runs as `user`. Raises `LaunchError`."""
    try:
        os.chdir(workdir)
    except (OSError, ValueError) as error:
        wrong = {number: text.format(user=user) for number, text in _WRONG_WORKDIR.items()}
        raise _launch_error(f"working directory {_shown(workdir)}", error, wrong) from None


def program_error(program: str, error: OSError | ValueError) -> LaunchError:
    """What is wrong with a program that the kernel does not execute."""
    return _launch_error(f"program {_shown(program)}", error, _wrong_program(program))


def find_program(program: str, path: str) -> str:
    """As a shell looks a program up, seen from the worker's directory and its PATH. Raises `LaunchError`."""
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
        folders = f" ({path.count(os.pathsep) + 1} folders)" if len(path) > _SHOWN_MAX else ""
        where = f"is not found in PATH, which is {_shown(path)}{folders}"
        raise LaunchError(f"program {_shown(program)} {where}: correct its name, or give its path", for_good=True)
    return found


def _shown(text: str) -> str:
    """The text, shortened for one line. Programs are mostly found in the first folders of a PATH."""
    line = " ".join(text[: _SHOWN_MAX + 1].split())
    return line if len(text) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}…"


def _wrong_program(program: str) -> Mapping[int, str]:
    """The errors of a program. A script that is there is said not to exist where its interpreter does not."""
    return {**_WRONG_PROGRAM, errno.ENOENT: _NO_INTERPRETER} if os.path.isfile(program) else _WRONG_PROGRAM


def _launch_error(what: str, error: OSError | ValueError, wrong: Mapping[int, str]) -> LaunchError:
    if not isinstance(error, OSError):  # a NUL in it, which no system call takes
        return LaunchError(f"{what}: {error}", for_good=True)
    said = wrong.get(error.errno or 0)
    return LaunchError(f"{what} {said}" if said else f"{what}: {error.strerror}", for_good=said is not None)
