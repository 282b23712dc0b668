"""A system daemon for tests: root's, with users of the machine who come by its UNIX socket."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.daemon import Daemon, running_daemon
from tests.logins import Login, new_login, open_directory, python_of

TOKEN = "0123456789abcdef"


class SystemSite:
    """`ann` and `bob` are logins of the machine; root comes by `root`."""

    def __init__(self, directory: Path, daemon: Daemon, ann: Login, bob: Login) -> None:
        self.directory, self.daemon, self.ann, self.bob = directory, daemon, ann, bob
        transport = httpx.HTTPTransport(uds=str(socket_of(directory)))
        self.root = httpx.Client(transport=transport, base_url="http://localhost", timeout=60)
        self.python, self._env = python_of(ann)

    def sched(self, login: Login, *words: str) -> subprocess.CompletedProcess[str]:
        """`sched`, as the user would type it."""
        env = {**self._env, "SCHED_URL": f"unix://{socket_of(self.directory)}"}
        return login.run(self.python, "-m", "scheduler.cli", *words, env=env, check=False)

    def submit(self, login: Login, *words: str) -> int:
        done = self.sched(login, "submit", "-o", "json", *words)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["id"])

    def job(self, job: int) -> dict[str, Any]:
        view: dict[str, Any] = self.root.get(f"/v1/jobs/{job}").json()
        return view

    def await_event(self, job: int, kind: str) -> dict[str, Any]:
        """The first event of this kind that the job has."""
        return next(event for event in self.daemon.events(job=job) if event["kind"] == kind)

    def directories_of(self, job: int) -> tuple[Path, Path]:
        """Of its logs and of its checkpoints."""
        names = {
            path.name for path in (self.daemon.state_dir / "logs").iterdir() if path.name.split("-")[0] == str(job)
        }
        [name] = names
        return self.daemon.state_dir / "logs" / name, self.daemon.state_dir / "jobs" / name

    def close(self) -> None:
        self.root.close()


def socket_of(directory: Path) -> Path:
    return directory / "sched.sock"


@contextmanager
def system_site(*, slots: int = 4, **settings: Mapping[str, Any]) -> Iterator[SystemSite]:
    """Its users are in one group, which may use the socket."""
    with open_directory() as directory, new_login(directory) as ann, new_login(directory) as bob:
        bob.join(ann.group)
        http = {"socket": socket_of(directory), "socket_group": ann.group, "token": TOKEN}
        with running_daemon(directory, slots=slots, http=http, system={"enabled": True}, **settings) as daemon:
            site = SystemSite(directory, daemon, ann, bob)
            try:
                yield site
            finally:
                site.close()
