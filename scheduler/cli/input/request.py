"""A job request put together from the command line and a job file."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from scheduler.cli.input.export import export_request, is_text, present_directory
from scheduler.cli.input.flags import OPTION_OF, Flags
from scheduler.cli.input.jobfile import is_job_file, read_job_file
from scheduler.cli.input.quantities import duration_seconds, memory_mib, pairs, workers_range
from scheduler.cli.input.source import Source
from scheduler.errors import InvalidInput, UserError

_INTERPRETERS = ("python", "bash", "sh", "torchrun", "horovodrun", "uv", "poetry", "env", "nice")
#: First words of shell lines that name no program.
_SHELL_WORDS = frozenset({"for", "while", "until", "if", "case", "{", "(", "!", "cd", "set", "export", "exec", "time"})
_SCRIPTS = (".py", ".sh")


_MAPPINGS = ("env", "labels", "node_selector", "data")


def read_request(flags: Flags, file: Path | None) -> tuple[dict[str, Any], Source]:
    """The request that options and a job file make, and where each field comes from. Raises `UserError`.

    The file is the one of --file, or stands in the place of the command.
    """
    words = flags.command or []
    if words and file is None and is_job_file(words[0]):
        if len(words) > 1:
            raise UserError(f"{words[1]}: options must come before the job file {words[0]}")
        flags, file = replace(flags, command=None), Path(words[0])
    return build_request(flags, *(read_job_file(file) if file is not None else ({}, Source())))


def build_request(flags: Flags, written: dict[str, Any], file: Source) -> tuple[dict[str, Any], Source]:
    """The request's fields, and where each comes from. Options win over the file; mappings are merged key by key.

    Raises `UserError`.
    """
    given = _given(flags)
    merged = _without_other_bounds(written, given)
    for key, value in given.items():
        before = merged.get(key)
        merged[key] = {**before, **value} if key in _MAPPINGS and isinstance(before, dict) else value
    options = {key: OPTION_OF[key] for key in given}
    if flags.workers is not None:
        options |= {"min_workers": "--workers", "max_workers": "--workers"}
    source = Source(file.path, options, file.lines, file.fields)
    if not merged.get("command"):
        where = f"{file.path}: command: field required" if file.path else "no command given"
        raise UserError(f"{where}: give a command after --, a shell line with --shell, or a job file with -f")
    directory = _directory(merged.get("workdir"), file if "workdir" not in given else Source())
    with source.pointed_at():
        export = export_request(merged.pop("export", None), os.environ, directory=directory)
    if export is not None:
        merged["export"] = export
    if not merged.get("name"):
        merged["name"] = name_of(merged["command"])
    return merged, source


def _given(flags: Flags) -> dict[str, Any]:
    """The fields that options set, in the request's own units."""
    if flags.workers is not None and (flags.min_workers is not None or flags.max_workers is not None):
        raise UserError("--workers: cannot be combined with --min or --max")
    if flags.shell is not None and flags.command:
        raise UserError("--shell: cannot be combined with a command after --")
    if flags.surplus_preemptible and flags.preemptible is not None:
        raise UserError("--preemptible-surplus: cannot be combined with --preemptible or --not-preemptible")
    given = {}
    for field, option in OPTION_OF.items():
        value = getattr(flags, field)
        if value is not None and value != []:
            read = _READ.get(field)
            given[field] = value if read is None else read(value, option)
    if flags.shell is not None:
        given["command"] = flags.shell
    if flags.surplus_preemptible:
        given["preemptible"] = "surplus"
    if "workers" in given:
        given["min_workers"], given["max_workers"] = given.pop("workers")
    return given


def _document(path: Path, _option: str) -> dict[str, Any]:
    return read_job_file(path)[0]


def _data(items: list[str], option: str) -> dict[str, Any]:
    """Numbers, truth values and words as a job file has them; the daemon judges the rest."""
    keys = [item.partition("=")[0] for item in items]
    twice = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
    if twice is not None:
        raise InvalidInput(option, f"{twice} is given more than once")
    try:
        read = {key: yaml.safe_load(value) for key, value in pairs(items, option).items()}
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that there is not
        raise InvalidInput(option, f"{' '.join(items)[:200]} must have the form shards=1000") from None
    for key, value in read.items():
        if not isinstance(value, str | int | float | None) or (isinstance(value, float) and not math.isfinite(value)):
            raise InvalidInput(option, f"{key} must be a number, true or false")
    return read


def _speedup(items: list[str], option: str) -> list[list[float]]:
    """Pairs of workers and speed, ascending."""
    try:
        return sorted([float(workers), float(speed)] for workers, speed in pairs(items, option).items())
    except ValueError:
        raise InvalidInput(option, f"{' '.join(items)} must have the form 4=3.4") from None


def _environment(items: list[str], option: str) -> dict[str, str]:
    """`K=V` as written, `K` with its value here."""
    env: dict[str, str] = {}
    for item in items:
        if "=" in item:
            env |= pairs([item], option)
        elif item in os.environ and not is_text(os.environ[item]):
            raise InvalidInput(option, f"{item} is not UTF-8 text: no job can take it")
        elif item in os.environ:
            env[item] = os.environ[item]
        else:
            raise InvalidInput(option, f"{item} is not set in this environment: use {item}=VALUE")
    return env


#: Fields whose options are written in another way than a request: what makes the value of the text and the option.
_READ: dict[str, Callable[[Any, str], Any]] = {
    "env": _environment,
    "workdir": lambda path, _: str(path),
    "labels": pairs,
    "pod_template": _document,
    "fixed": _document,
    "data": _data,
    "workers": workers_range,
    "memory_mib_per_worker": memory_mib,
    "node_selector": pairs,
    "time_limit_seconds": duration_seconds,
    "expected_seconds": duration_seconds,
    "grace_seconds": duration_seconds,
    "heartbeat_seconds": duration_seconds,
    "speedup": _speedup,
}


def _without_other_bounds(written: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The file's fields, without `workers` where an option sets a bound: the other bound stays as the file says."""
    merged = dict(written)
    if "workers" in merged and ("min_workers" in given or "max_workers" in given):
        both = merged.pop("workers")
        merged.setdefault("min_workers", both)
        merged.setdefault("max_workers", both)
    return merged


def _directory(workdir: Any, file: Source) -> str | None:
    """Where the job runs on this machine: here, or in a relative workdir, which is relative to the file that names it.

    None for an absolute workdir, which needs no machine to be understood.
    """
    if workdir is None:
        return present_directory()
    if not isinstance(workdir, str) or os.path.isabs(workdir):
        return None
    return os.path.normpath(os.path.join(present_directory(), os.path.dirname(file.path), os.path.expanduser(workdir)))


def name_of(command: Any) -> str:
    """A name for a command: its script where an interpreter runs one, else its program."""
    words = command.split() if isinstance(command, str) else command
    words = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    program = PurePosixPath(words[0]).name if words else ""
    if isinstance(command, str) and program in _SHELL_WORDS:
        return "shell"
    if program.rstrip("0123456789.") in _INTERPRETERS:
        script = next((word for word in words[1:] if word.endswith(_SCRIPTS)), None)
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else None
        program = PurePosixPath(script).stem if script else module or program
    return "".join(c for c in program if c.isprintable())[:128] or "job"
