"""What a job takes of the environment in which `sched` is called: its variables, its directory, its Python."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any

from scheduler.errors import InvalidInput, UserError
from scheduler.model.export import in_default_export, is_schedulers, is_secret

_ALL, _NONE = "ALL", "NONE"
_FORM = "use NONE, ALL, or names such as HF_HOME,SEED=1"
#: A shell's own, and what a scheduler says to a worker: true of where they were set and of nothing else.
_OF_THE_CALLER = frozenset(
    {
        *("_", "PWD", "OLDPWD", "SHLVL", "CUDA_VISIBLE_DEVICES"),
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    }
)
_OF_THE_CALLER_PREFIXES = ("PET_", "TORCHELASTIC_")
_FOLDERS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
_NAME = re.compile(r"[^=\x00]+")


def export_request(chosen: Any, environ: Mapping[str, str], *, directory: str | None) -> dict[str, Any] | None:
    """The `export` of a job request, made of what --export or a job file says; None where it would be empty.

    Args:
        chosen: NONE, ALL, names with or without a value, as text or as a list of texts; None: what is usual.
        directory: where the job is to run, if it names no absolute directory itself.

    Raises:
        InvalidInput: if it is none of these, or a name is not set.
    """
    env = exported_env(chosen, environ)
    if not env and directory is None:
        return None
    return {
        "env": env,
        **({"workdir": directory} if directory is not None else {}),
        "host": socket.gethostname(),
    }


def exported_env(
    chosen: Any, environ: Mapping[str, str], prefix: str = sys.prefix, base_prefix: str = sys.base_prefix
) -> dict[str, str]:
    """The variables that a job takes.

    `prefix` and `base_prefix` are those of the Python that runs `sched`: they differ in a virtual environment.
    """
    items = _items(chosen)
    if items == [_NONE]:
        return {}
    readable = _readable(environ)
    taken: dict[str, str] = {}
    if items is None:
        taken = {name: value for name, value in readable.items() if in_default_export(name) and not _kept(name, value)}
    elif _ALL in items:
        taken = {name: value for name, value in readable.items() if not _kept(name, value)}
    given: dict[str, str] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if item == _ALL:
            continue
        _check_name(name, item)
        if equals:
            given[name] = value
        elif name in readable:
            taken[name] = readable[name]
        elif name in environ:
            raise InvalidInput("export", f"{name} is not UTF-8 text: no job can take it")
        else:
            raise InvalidInput("export", f"{name} is not set in this environment: remove it, or use {name}=VALUE")
    if items is None or _ALL in items or "PATH" in taken:
        taken = with_own_environment(taken, readable, prefix, base_prefix)
    return {**taken, **given}


def with_own_environment(
    taken: Mapping[str, str], environ: Mapping[str, str], prefix: str, base_prefix: str
) -> dict[str, str]:
    """These variables, as if the virtual environment of `sched` were activated, unless another one is.

    Who calls .venv/bin/sched means .venv/bin/python; who has activated an environment means that one, and who has
    only conda's base, which shells activate by themselves, has chosen none.
    """
    own = {**taken}
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    bin_dir = os.path.join(prefix, "bin")
    if prefix == base_prefix or not is_text(prefix) or _another_is_active(environ, prefix, folders):
        return own
    if not (_same(environ.get("VIRTUAL_ENV"), prefix) and any(_same(folder, bin_dir) for folder in folders)):
        own["PATH"] = os.pathsep.join([bin_dir, *(folder for folder in folders if not _same(folder, bin_dir))])
        own["VIRTUAL_ENV"] = prefix
        own.pop("PYTHONHOME", None)  # as activation does: it would lead past the environment
    return own


def _another_is_active(environ: Mapping[str, str], prefix: str, folders: list[str]) -> bool:
    """Whether the caller's shell has a virtual or conda environment in force, and not that of `sched`."""
    active = [environ.get("VIRTUAL_ENV")]
    if environ.get("CONDA_DEFAULT_ENV") != "base":
        active.append(environ.get("CONDA_PREFIX"))
    return any(
        root and not _same(root, prefix) and any(_same(folder, os.path.join(root, "bin")) for folder in folders)
        for root in active
    )


def _same(one: str | None, other: str) -> bool:
    """Whether these are one directory. An empty one is the present directory to a shell, and none here."""
    return bool(one) and os.path.realpath(one or "") == os.path.realpath(other)


def _readable(environ: Mapping[str, str]) -> dict[str, str]:
    """What can be sent as text: UTF-8. Of lists of folders, the folders that can."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if is_text(name) and is_text(value):
            found[name] = value
        elif name in _FOLDERS:
            found[name] = os.pathsep.join(folder for folder in value.split(os.pathsep) if is_text(folder))
    return found


def is_text(value: str) -> bool:
    """Whether a variable, or the name of a directory, is UTF-8. The system lets them be any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _items(chosen: Any) -> list[str] | None:
    """What is listed, as it was written. Raises `InvalidInput`."""
    if chosen is None:
        return None
    texts = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput("export", f"must be a string or a list of strings: {_FORM}")
    items = [item.strip() for text in texts for item in text.split(",")]
    if items == [""]:
        raise InvalidInput("export", f"is empty: {_FORM}")
    items = [item.upper() if item.upper() in (_ALL, _NONE) else item for item in items]
    if _NONE in items and len(items) > 1:
        raise InvalidInput("export", "NONE stands alone: leave it out, or the names")
    return items or [_NONE]


def _check_name(name: str, item: str) -> None:
    """Raise `InvalidInput` for what no job can take."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("export", f"{item!r} is not a variable: {_FORM}")
    if is_schedulers(name):
        raise InvalidInput("export", f"{name} is the scheduler's own: leave it out")


def _kept(name: str, value: str) -> bool:
    """Whether the variable is taken only where it is named, or not at all."""
    if not _NAME.fullmatch(name) or is_schedulers(name):
        return True
    return name in _OF_THE_CALLER or name.startswith(_OF_THE_CALLER_PREFIXES) or is_secret(name, value)


def present_directory() -> str:
    """Where `sched` is called. Raises `UserError` where it is gone, or its name is no text."""
    try:
        directory = os.getcwd()
    except OSError as error:
        rule = f"the present directory: {error.strerror}: go to one that there is, or give --workdir"
        raise UserError(rule) from None
    if not is_text(directory):
        raise UserError("the present directory has a name that is not UTF-8 text: go to another, or give --workdir")
    return directory
