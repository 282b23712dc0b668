"""What a job takes of its submitter's environment, and which variables are secrets. Standard library only."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: Variables and bytes of one job, names and values together: a process can be started with these beside its own.
VARIABLES_MAX = 1024
BYTES_MAX = 256 * 1024
#: What is shown in the place of a secret's value.
MASK = "***"

_DEFAULT_NAMES = frozenset({"PATH", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"})
_DEFAULT_PREFIX = "CONDA_"
_SCHEDULER_PREFIX = "SCHED_"

#: Words of a name, by themselves or at the end of a longer one, that make it a secret's.
_SECRET_WORDS = frozenset(
    {
        *("KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE"),
        *("PASS", "CREDENTIAL", "CREDENTIALS", "APIKEY", "JWT", "BEARER", "COOKIE"),
    }
)
_SECRET_ENDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "ACCESSKEY", "SECRETKEY", "SSHPASS")
#: Words that do so only as the last of several: PWD alone is a directory.
_SECRET_LAST_WORDS = frozenset({"PWD", "PAT", "AUTH"})
_WORD = re.compile(r"[A-Z0-9]+")
_CREDENTIALS_IN_URL = re.compile(r"://(?:[^/\s@]+|[^\s@:]*:[^\s@]*)@")


@dataclass(frozen=True, slots=True)
class Export:
    """The part of its submitter's environment that a job takes. Only workers on the submitter's machine get it."""

    #: Name and value, by name.
    env: tuple[tuple[str, str], ...] = ()
    #: The submitter's directory, where the job has none of its own.
    workdir: str | None = None
    #: The submitter's machine; None: the daemon's.
    host: str | None = None


def in_default_export(name: str) -> bool:
    """Whether a job takes the variable unless its submitter chooses: programs and libraries are found by these."""
    return name in _DEFAULT_NAMES or name.startswith(_DEFAULT_PREFIX)


def is_schedulers(name: str) -> bool:
    """Whether the variable is the scheduler's own, which no job takes of its submitter."""
    return name.upper().startswith(_SCHEDULER_PREFIX)


def is_secret(name: str, value: str) -> bool:
    """Whether the variable holds a secret, by its name (HF_TOKEN, PGPASSWORD) or by credentials in a URL."""
    words = _WORD.findall(name.upper())
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words):
        return True
    if len(words) > 1 and words[-1] in _SECRET_LAST_WORDS:
        return True
    if words[-1:] == ["PROXY"] and "@" in value:  # a proxy may stand without its scheme
        return True
    return _CREDENTIALS_IN_URL.search(value) is not None


def masked(env: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables for people to see. An empty secret stays empty: it hides nothing."""
    return {name: MASK if value and is_secret(name, value) else value for name, value in env}
