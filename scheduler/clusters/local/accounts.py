"""The users of this machine as whom a system daemon starts jobs, and who may be one."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scheduler.clusters.local.wire import AccountFields
from scheduler.config import SystemSettings

LOGIN_DEFS = Path("/etc/login.defs")
_UID_MIN = 1000
#: `nobody`, as whom other systems' users appear in network file systems and containers.
_NOBODY = 65534


class Refused(Exception):
    """No job runs as this user; the message is one line that says why, and what would be right."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """The users of this machine, asked for anew each time: an account may go, or get other groups."""

    uid_min: int
    #: System accounts that may have jobs all the same.
    allowed: frozenset[str]
    umask: int

    @classmethod
    def of(cls, settings: SystemSettings, login_defs: Path = LOGIN_DEFS) -> Self:
        uid_min = _uid_min(login_defs) if settings.uid_min is None else settings.uid_min
        return cls(uid_min, frozenset(settings.accounts), int(settings.umask, 8))

    def find(self, login: str) -> AccountFields:
        """What a process of this user is started with. Raises `Refused`."""
        try:
            found = pwd.getpwnam(login)
        except (KeyError, ValueError):  # a name with a NUL cannot even be asked for
            whose = f"user {login}" if login else "a job without a user"
            raise Refused(f"{whose} has no account on this machine: jobs run as a login of it") from None
        self._check(login, found.pw_uid)
        try:
            groups = os.getgrouplist(found.pw_name, found.pw_gid)
        except OSError as error:
            raise Refused(f"the groups of user {login} cannot be found: {error.strerror}") from None
        return AccountFields(
            login=found.pw_name,
            uid=found.pw_uid,
            gid=found.pw_gid,
            groups=groups,
            home=found.pw_dir,
            shell=found.pw_shell or "/bin/sh",
            umask=self.umask,
        )

    def why_not(self, login: str) -> str | None:
        """Why no job runs as this user, in one line; None: it may."""
        try:
            self.find(login)
        except Refused as refused:
            return str(refused)
        return None

    def _check(self, login: str, uid: int) -> None:
        """Raise `Refused` for root, and for a system account that no setting names."""
        if uid == 0:
            raise Refused(f"jobs never run as root, which {login} is: submit as an ordinary user")
        if login in self.allowed:
            return
        if uid < self.uid_min or uid == _NOBODY:
            below = f"below {self.uid_min}" if uid < self.uid_min else "of nobody"
            raise Refused(
                f"{login} is a system account (user number {uid}, {below}): submit as an ordinary user, "
                "or let an administrator name it in system.accounts"
            )


def _uid_min(login_defs: Path) -> int:
    """The lowest number that the machine gives to users."""
    try:
        lines = login_defs.read_text(errors="replace").splitlines()
    except OSError:
        return _UID_MIN
    words = (line.split() for line in lines)
    given = [each[1] for each in words if len(each) >= 2 and each[0] == "UID_MIN" and each[1].isdecimal()]
    return int(given[-1]) if given else _UID_MIN


def login_variables(account: AccountFields) -> dict[str, str]:
    """What a login sets for its programs."""
    return {
        "HOME": account["home"],
        "USER": account["login"],
        "LOGNAME": account["login"],
        "SHELL": account["shell"],
    }
