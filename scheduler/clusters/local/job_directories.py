"""Directories of jobs that belong to their users, in one of root's. Standard library only.

A user can put whatever it likes into a directory of its own, and links to anything: so nothing is ever done by root
to what stands in one, beyond what `logs.files` does to a log that it has looked at.
"""

import errno
import os
from contextlib import suppress

#: Below the state directory; each job has one for its checkpoints.
JOBS_DIR = "jobs"
#: Others may pass through to their own, and see nothing.
_PASSABLE = 0o711
_PRIVATE = 0o700


def give_directory(root: str, name: str, uid: int, gid: int) -> str:
    """The user's directory of this name in `root`, made if need be, closed to all others. Raises `OSError`.

    `root` is made if need be, in a directory where nobody else can make one.
    """
    os.makedirs(root, mode=_PRIVATE, exist_ok=True)
    os.chmod(root, _PASSABLE)
    path = f"{root}/{name}"
    with suppress(FileExistsError):  # of an earlier worker of the job
        os.mkdir(path, _PRIVATE)
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        owner = os.fstat(opened).st_uid
        if owner == os.geteuid():  # made just now, or by a supervisor that ended before the next line
            os.fchown(opened, uid, gid)
        elif owner != uid:
            raise OSError(errno.EPERM, "belongs to another user", path)
    finally:
        os.close(opened)
    return path


def open_given_log(path: str, uid: int, gid: int) -> int:
    """A new log to append to, in a directory of that user, who owns it. Raises `OSError` where something is there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(path, flags, 0o600)
    try:
        os.fchown(opened, uid, gid)
    except OSError:
        os.close(opened)
        raise
    return opened
