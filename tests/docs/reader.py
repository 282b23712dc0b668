"""Does what a page says, as its reader would: in a fresh shell, in a copy of the checkout, with nothing activated."""

import os
import pty
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.docs.blocks import ELISION, ROOT, Block, commands, normal, shows, steps
from tests.ports import free_port

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What only looks, and is therefore repeated until the page's answer comes, as a reader would repeat it.
LOOKS = re.compile(
    r"sched (list|show|explain|events|top|nodes|health|hosts|bookings|report|whatif)\b"
    r"|sched logs (?!.*(-f|--follow))"
)
SERVES = re.compile(r"\bsched serve\b|\bport-forward\b")
INSTALLS = re.compile(r"-m venv\b|\bpip install\b|\bkind create\b|\bdocker build\b")
#: Of the machine, not of a shell: how pip reaches its packages here.
NETWORK = re.compile(r"(?i)^(pip_|https?_proxy$|no_proxy$|all_proxy$|ssl_cert|requests_ca_bundle$|curl_ca_bundle$)")
PATIENCE_SECONDS = 180.0
COMMAND_SECONDS_MAX = 1500.0


class PageError(AssertionError):
    """The page is not true: what it says, and what happens instead."""


@dataclass
class Reader:
    """Somebody with a home, a checkout and terminals.

    Args:
        user: whose account; None: that of the tests.
        installs: whether blocks that install are run. Else they are passed over, and `checkout/.venv` is a real virtual
            environment whose modules come from the environment of the tests and, for this project, from the checkout.
    """

    home: Path
    checkout: Path
    user: pwd.struct_passwd | None = None
    installs: bool = False
    extra_env: Mapping[str, str] = field(default_factory=dict)
    #: How long each step took: first line, seconds.
    took: list[tuple[str, float]] = field(default_factory=list)
    _terminals: list["Terminal"] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        network = {name: value for name, value in os.environ.items() if NETWORK.match(name)} if self.installs else {}
        return {"HOME": str(self.home), "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", **network, **self.extra_env}

    @property
    def account(self) -> dict[str, Any]:
        """What a process is started with to belong to the reader."""
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}

    def read(self, page: Path) -> None:
        """Runs the page from top to bottom.

        Raises:
            PageError: at the first block that does not do what the page says.
        """
        for block, output in steps(page):
            began = time.monotonic()
            if block.file:
                self._save(block)
            elif INSTALLS.search(block.text) and not self.installs:
                continue
            elif SERVES.search(block.text):
                self._serve(block, output)
            else:
                self._run(block, output)
            title = block.file or commands(block)[0]
            self.took.append((title, time.monotonic() - began))

    def leave(self) -> None:
        """Ctrl-C in the terminals; then everything that is left is ended."""
        for terminal in self._terminals:
            terminal.interrupt()
        for process in self._left():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _save(self, block: Block) -> None:
        assert block.file
        path = self.checkout / block.file
        path.write_text(block.text)
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def _serve(self, block: Block, output: Block | None) -> None:
        terminal = Terminal(self, block.text)
        self._terminals.append(terminal)
        if output is None:
            raise PageError(f"line {block.line}: the page does not say by what its reader knows that it serves")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not shows(f"{ELISION}\n{output.text}{ELISION}\n", terminal.text):
            if time.monotonic() > deadline or not terminal.alive():
                raise PageError(f"line {block.line}: {block.text}does not show {output.text}but:\n{terminal.text}")
            time.sleep(0.2)

    def _run(self, block: Block, output: Block | None) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        looks = all(LOOKS.search(command) for command in commands(block))
        while True:
            status, printed = self.shell(block.text)
            fits = status == 0 and (output is None or shows(output.text, printed))
            if fits:
                return
            if not looks or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        wanted = "" if output is None else f"\nthe page shows:\n{output.text}"
        raise PageError(f"line {block.line}: {block.text}exits with {status} and prints:\n{printed}{wanted}")

    def shell(self, text: str) -> tuple[int, str]:
        """Runs the block as one script of a fresh shell: exit status, and what it prints."""
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", text],
            cwd=self.checkout,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS_MAX,
            **self.account,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def _left(self) -> list[psutil.Process]:
        """Processes whose environment names the reader's home or checkout."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                values = process.environ().values()
                if any(str(self.home) in value or str(self.checkout) in value for value in values):
                    found.append(process)
        return found


class Terminal:
    """A terminal of its own, in which a block runs until Ctrl-C."""

    def __init__(self, reader: Reader, text: str) -> None:
        self._screen = b""
        ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["/bin/sh", "-e", "-c", text],
            cwd=reader.checkout,
            env=reader.env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            **reader.account,
        )
        os.close(theirs)
        self._ours = ours
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def text(self) -> str:
        return "\n".join(normal(self._screen.decode(errors="replace")))

    def alive(self) -> bool:
        return self._process.poll() is None

    def interrupt(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._watcher.join(10)
        os.close(self._ours)

    def _watch(self) -> None:
        with suppress(OSError):
            while data := os.read(self._ours, 65536):
                self._screen += data


@contextmanager
def reader(
    folder: str = "checkout", user: str | None = None, installs: bool = False, env: Mapping[str, str] | None = None
) -> Iterator[Reader]:
    """A reader with a copy of this checkout in a folder of that name, in a new home that vanishes at the end."""
    account = pwd.getpwnam(user) if user is not None else None
    base = Path(tempfile.mkdtemp(prefix="reader-"))
    base.chmod(0o755)
    try:
        home, checkout = base / "home", base / folder
        home.mkdir()
        copy(checkout)
        # Another daemon may have the default port on this machine.
        extra = {**(env or {}), **({} if installs else {"SCHED_HTTP__PORT": str(free_port())})}
        if not installs:
            link_environment(checkout, account)
        if account is not None:
            for path in (home, checkout, *checkout.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        someone = Reader(home, checkout, account, installs, extra)
        try:
            yield someone
        finally:
            someone.leave()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def copy(checkout: Path) -> None:
    """What a clone would hold, with what is not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    else:  # an archive of the source
        names = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if path.is_file() and not path.relative_to(ROOT).parts[0].startswith(".")
        ]
    for name in names:
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def link_environment(checkout: Path, account: pwd.struct_passwd | None) -> None:
    """Makes `.venv` as `python3 -m venv` does, then lets it find what the tests' environment has installed.

    The stamps tell make that it is installed. `sched` is the script that pip would write, and imports the checkout.

    Raises:
        LookupError: if the reader can use no Python that fits.
    """
    python = next((each for each in (sys._base_executable, "/usr/bin/python3") if fits(each, account)), None)  # type: ignore[attr-defined]
    packages = sysconfig.get_paths()["purelib"]
    if python is None or not readable(Path(packages), account):
        raise LookupError("the environment of the tests cannot be read by the user")
    venv = checkout / ".venv"
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True, env={"PATH": PATH})
    (site,) = (venv / "lib").glob("python3*/site-packages")
    (site / "linked.pth").write_text(f"{checkout}\n{packages}\n")
    script = venv / "bin" / "sched"
    # As pip does it: a path with spaces cannot stand behind "#!".
    script.write_text(
        f"#!/bin/sh\n'''exec' \"{venv}/bin/python\" \"$0\" \"$@\"\n' '''\n"
        "import sys\n\nfrom scheduler.cli.main import app\n\nsys.exit(app())\n"
    )
    script.chmod(0o755)
    for stamp in re.findall(r"^\.venv/([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE):
        (venv / stamp).touch()


def fits(python: str, account: pwd.struct_passwd | None) -> bool:
    """Whether the user can run it, and modules that were built for ours load in it."""
    if not readable(Path(python).resolve(), account):
        return False
    told = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=False)
    return told.returncode == 0 and told.stdout.split() == [b"%d" % number for number in sys.version_info[:2]]


def readable(path: Path, account: pwd.struct_passwd | None) -> bool:
    """Whether everybody may go there, which is what matters for a user other than the tests'."""
    if account is None or account.pw_uid == os.getuid():
        return path.exists()
    if not path.exists() or not path.stat().st_mode & stat.S_IROTH:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
