"""Users of this machine for tests of what runs as them: made for the test, and removed with all that they own."""

import grp
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_MISSING = next((each for each in ("useradd", "groupadd", "userdel") if shutil.which(each) is None), None)
#: Of tests that need users of their own.
needs_logins = pytest.mark.skipif(
    os.geteuid() != 0 or _MISSING is not None,
    reason="only root makes users and becomes them" if os.geteuid() != 0 else f"there is no {_MISSING}",
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a home, a group of its own and one more group."""

    name: str
    home: Path
    group: str

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    @property
    def gid(self) -> int:
        return pwd.getpwnam(self.name).pw_gid

    @property
    def groups(self) -> list[int]:
        return os.getgrouplist(self.name, self.gid)

    def join(self, group: str) -> None:
        """Make the user a member of one more group."""
        _tool("usermod", "--append", "--groups", group, self.name)

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """What the command says when this user runs it at home."""
        done = subprocess.run(command, **self._as_user(env), capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    def start(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A process of this user, in a session of its own."""
        return subprocess.Popen(command, **self._as_user(env), start_new_session=True)

    def may_read(self, paths: Sequence[Path]) -> list[str]:
        """Those of the paths that this user can read, list or write."""
        look = 'while IFS= read -r path; do if [ -r "$path" ] || [ -w "$path" ]; then echo "$path"; fi; done'
        listing = "\n".join(map(str, paths)) + "\n"
        done = subprocess.run(
            ["sh", "-c", look], **self._as_user(None), input=listing, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    def _as_user(self, env: Mapping[str, str] | None) -> dict[str, object]:
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": self.name, **(env or {})}
        ids = {"user": self.uid, "group": self.gid, "extra_groups": self.groups}
        return {**ids, "env": variables, "cwd": self.home}


@contextmanager
def new_login(homes: Path, name: str | None = None) -> Iterator[Login]:
    """A user, with a name that no other one has unless it is given. `homes`: a directory that all users reach."""
    name = name or f"sched-{secrets.token_hex(4)}"
    login = Login(name, homes / name, f"{name}-lab")
    with ExitStack() as stack:
        _tool("groupadd", login.group)
        stack.callback(_tool, "groupdel", login.group)
        _tool(
            "useradd", "--create-home", "--home-dir", str(login.home), "--groups", login.group, "-s", "/bin/bash", name
        )
        stack.callback(_remove, login)
        yield login


def python_of(login: Login) -> tuple[str, dict[str, str]]:
    """An interpreter of this version that the user can run, and variables with which it finds what this one does.

    Skips the test where the machine has none.
    """
    candidates = (sys.executable, shutil.which(f"python3.{sys.version_info.minor}", path="/usr/local/bin:/usr/bin"))
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if "site-packages" in path)])}
    look = "import scheduler.cli.main, scheduler.elastic"
    for each in candidates:
        if each and login.run("sh", "-c", f"exec {each} -c '{look}'", env=env, check=False).returncode == 0:
            return each, env
    pytest.skip("users of this machine can run no interpreter that has what the scheduler needs")


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that all users reach, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def _remove(login: Login) -> None:
    """Ends with the group of the user, too."""
    with_that_group = login.name in {group.gr_name for group in grp.getgrall()}
    _tool("userdel", "--force", login.name)
    if with_that_group and login.name in {group.gr_name for group in grp.getgrall()}:
        _tool("groupdel", login.name)


def _tool(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
