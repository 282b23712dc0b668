"""The daemon of a whole machine: root's, which starts each job as its user, and keeps all else from users."""

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

import structlog

from scheduler.config import Settings
from scheduler.errors import ConfigError

log = structlog.get_logger(__name__)

_OWN_ONLY = 0o077
_RUN_MODE = 0o755


def check_root() -> None:
    """Raise `ConfigError` unless this process may become other users."""
    if os.geteuid() != 0:
        raise ConfigError(
            f"sched serve --system starts each job as its user, which only root may do, and you are {own_login()}: "
            "use sudo sched serve --system, or leave --system out, and all jobs run as you"
        )


def check_system(settings: Settings) -> None:
    """Raise `ConfigError` where a daemon with these settings could not start jobs as their users."""
    check_root()
    if settings.cluster != "local" or settings.local.directory is not None:
        raise ConfigError(
            "system.enabled starts jobs as users of this machine, with their directories below state_dir: "
            'let cluster be "local", and do not set local.directory'
        )
    closed = next((each for each in settings.state_path.parents if each.exists() and not _passable(each)), None)
    if closed is not None:
        raise ConfigError(
            f"state_dir {settings.state_path}: users could not reach their jobs' directories there, since {closed} is "
            "closed to them: use a directory such as /var/lib/sched"
        )


def get_ready(settings: Settings) -> None:
    """Let this process be fit to start jobs as their users, where it has to. Raises `ConfigError` as `check_system`."""
    if settings.system.enabled:
        check_system(settings)
        _take_charge(settings)


def tell_whose_jobs(settings: Settings) -> None:
    """Log as whom jobs run."""
    if settings.system.enabled:
        log.info("jobs run as their users")
    elif settings.cluster == "local":
        log.info("all jobs run as the user of the daemon", user=own_login())


def _take_charge(settings: Settings) -> None:
    """What this process makes from now on is root's alone, unless it is given away."""
    os.umask(_OWN_ONLY)
    if settings.http.socket is not None:
        directory = settings.http.socket.expanduser().absolute().parent
        with suppress(OSError):  # it is there, or whoever listens there says what is wrong
            directory.mkdir(_RUN_MODE)
            directory.chmod(_RUN_MODE)


def own_login() -> str:
    """The login of this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid:{os.geteuid()}"


def _passable(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_IXOTH)
