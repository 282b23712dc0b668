"""README.md and the tutorial from top to bottom as they stand: who copies each block gets what the page shows.

The ordinary variant passes over the blocks that install: the reader's `.venv` is linked to what is there for the tests.
The thorough one installs as the README says, which needs the network, and takes the daemon's own port.
"""

import os
import pwd
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.reader import Reader, reader

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
CI, INSTALLED = bool(os.environ.get("CI")), bool(os.environ.get("SCHED_TEST_INSTALLED"))
pytestmark = [pytest.mark.torch, pytest.mark.timeout(3000)]


def ordinary_user() -> str | None:
    """The name of somebody who is not root; None: the tests' own user is not."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody").pw_name
    except KeyError:
        pytest.skip("there is no user but root here")


@pytest.fixture
def default_port() -> None:
    """The daemon's own port, 8470, is free. (Tests of this file run in one process, and no other takes it.)"""
    skip_where_the_port_is_taken()


def skip_where_the_port_is_taken() -> None:
    with socket.socket() as client:
        if client.connect_ex(("127.0.0.1", 8470)) == 0:
            pytest.skip("something listens on port 8470")


def follow(page: Path, someone: Reader) -> None:
    try:
        someone.read(page)
    finally:
        name = someone.user.pw_name if someone.user else "the user of the tests"
        print(f"\n{page.relative_to(ROOT)}, in {someone.checkout.name!r}, as {name}:")
        for title, seconds in someone.took:
            print(f"  {seconds:7.1f} s  {title}")


@contextmanager
def linked(folder: str, user: str | None) -> Iterator[Reader]:
    try:
        with reader(folder, user) as someone:
            yield someone
    except LookupError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(README, marks=pytest.mark.skipif(CI, reason="the thorough variant reads it there")),
        pytest.param(TUTORIAL, marks=pytest.mark.slow),
    ],
    ids=["README", "tutorial"],
)
def test_a_page_is_true_in_a_folder_with_a_space_for_a_user_who_is_not_root(page: Path) -> None:
    with linked("a b", ordinary_user()) as someone:
        follow(page, someone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "root"),
    [
        pytest.param(
            "checkout", True, marks=pytest.mark.skipif(not INSTALLED, reason="SCHED_TEST_INSTALLED is not set")
        ),
        ("a b", False),
    ],
    ids=["root", "not root, a space"],
)
def test_the_readme_is_true_where_nothing_is_installed(default_port: None, folder: str, root: bool) -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    with reader(folder, None if root else ordinary_user(), installs=True) as someone:
        status, printed = someone.shell(
            "python3 -m venv try && try/bin/pip download --no-deps -d try typing-extensions && rm -rf try"
        )
        if status != 0:
            pytest.skip(f"nothing can be installed here: {printed.strip()[-200:]}")
        follow(README, someone)
