"""The groups of users of this machine."""

import grp
import os
import pwd
from collections.abc import Iterator


def groups_of(login: str) -> frozenset[str]:
    """Names of the groups of this login; none where it has none, or they cannot be asked for now."""
    try:
        return frozenset(_names(os.getgrouplist(login, pwd.getpwnam(login).pw_gid)))
    except (KeyError, OSError):
        return frozenset()


def _names(numbers: list[int]) -> Iterator[str]:
    for number in numbers:
        try:
            yield grp.getgrgid(number).gr_name
        except KeyError:  # a group without a name is no member of anything
            continue
