"""What `sched submit` and `sched whatif` can be told of a job on their command lines: each field is an option."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler.cli.completion import complete_booking, complete_queue
from scheduler.model.job import Runtime
from scheduler.model.job_fields import JOB_FIELDS

WHAT = "What to run"
_SIZE = "Workers and resources"
_RULES = "Scheduling"
_KEY_VALUE = "KEY=VALUE"
_DURATION = "DURATION"

Words = list[str] | None
FileOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Job file (.yaml, .toml); options override it.", rich_help_panel=WHAT),
]


def job_option(
    field: str,
    *names: str,
    hint: str = "",
    text: str | None = None,
    metavar: str | None = None,
    panel: str | None = None,
    complete: Callable[[str], list[str]] | None = None,
) -> Any:
    """The option for a field of a job. Its help is the field's meaning and a hint, or another text.

    A hint says how the value is written, or what holds without it.
    """
    said = text or f"{JOB_FIELDS[field].meaning}{hint}."
    # Without the ellipsis Typer would take the first name for a default.
    return typer.Option(..., *names, help=said, metavar=metavar, rich_help_panel=panel, autocompletion=complete)


_what = partial(job_option, panel=WHAT)
_size = partial(job_option, panel=_SIZE)
_rule = partial(job_option, panel=_RULES)


@dataclass(frozen=True, slots=True)
class Flags:
    """Fields of the request as they were written on the command line; None: not given."""

    command: Annotated[
        Words, typer.Argument(metavar="-- COMMAND [ARGS]...", help="Program with its arguments, or a job file.")
    ] = None
    shell: Annotated[
        str | None, _what("command", "--shell", "-c", text="Command line for /bin/sh, instead of COMMAND.")
    ] = None
    name: Annotated[str | None, _what("name", "--name", hint=" (default: name of the script or program)")] = None
    user: Annotated[str | None, _what("user", "--user", hint=" (default: whoever submits)")] = None
    env: Annotated[
        Words,
        _what("env", "--env", "-e", metavar="KEY[=VALUE]", hint="; KEY alone copies the current value; repeatable"),
    ] = None
    export: Annotated[
        Words,
        _what(
            "export",
            "--export",
            metavar="NONE|ALL|NAME[=VALUE],...",
            text="Variables of your environment to pass on; --env overrides them (default: PATH, VIRTUAL_ENV, CONDA_*, "
            "PYTHONPATH, LD_LIBRARY_PATH). ALL excludes secrets, which must be named. Not for pods.",
        ),
    ] = None
    workdir: Annotated[Path | None, _what("workdir", "--workdir", "-C", hint=" (default: current directory)")] = None
    labels: Annotated[Words, _what("labels", "--label", "-l", metavar=_KEY_VALUE, hint="; repeatable")] = None
    runtime: Annotated[
        Runtime | None,
        _what("runtime", "--runtime", hint="; elastic is for scripts that use scheduler.elastic (default: command)"),
    ] = None
    pod_template: Annotated[
        Path | None, _what("pod_template", "--pod-template", metavar="FILE", hint=" (.yaml, .json)")
    ] = None
    fixed: Annotated[
        Path | None,
        _what("fixed", "--fixed", metavar="FILE", hint=": file with replicas, command, … (.yaml, .toml)"),
    ] = None
    data: Annotated[
        Words,
        _what("data", "--data", metavar=_KEY_VALUE, hint=": shards=1000, epochs=3, shuffle=true; repeatable"),
    ] = None
    workers: Annotated[
        str | None, _size("workers", "--workers", "-w", metavar="N|MIN-MAX", hint=", or minimum and maximum")
    ] = None
    min_workers: Annotated[int | None, _size("min_workers", "--min", "--min-workers")] = None
    max_workers: Annotated[int | None, _size("max_workers", "--max", "--max-workers")] = None
    slots_per_worker: Annotated[int | None, _size("slots_per_worker", "--slots-per-worker", "--slots")] = None
    cpus_per_worker: Annotated[float | None, _size("cpus_per_worker", "--cpus")] = None
    memory_mib_per_worker: Annotated[
        str | None, _size("memory_mib_per_worker", "--memory", metavar="SIZE", hint=": 512MiB, 4GiB")
    ] = None
    node_selector: Annotated[
        Words, _size("node_selector", "--node-selector", metavar=_KEY_VALUE, hint="; repeatable")
    ] = None
    gpu_type: Annotated[str | None, _size("gpu_type", "--gpu-type")] = None
    preferred_workers: Annotated[
        int | None, _size("preferred_workers", "--preferred", hint=" (default: the maximum)")
    ] = None
    oversell: Annotated[bool | None, _size("oversell", "--oversell/--no-oversell", hint=" (default: no)")] = None
    priority: Annotated[int | None, _rule("priority", "--priority", "-p", hint=" (default: 0)")] = None
    preemptible: Annotated[
        bool | None, _rule("preemptible", "--preemptible/--not-preemptible", hint=" (default: yes)")
    ] = None
    surplus_preemptible: Annotated[
        bool,
        _rule(
            "preemptible",
            "--preemptible-surplus",
            text="Allow them to take the slots of workers beyond its minimum only.",
        ),
    ] = False
    time_limit_seconds: Annotated[
        str | None, _rule("time_limit_seconds", "--time-limit", metavar=_DURATION, hint=": 90s, 45m, 1h30m, 2d")
    ] = None
    expected_seconds: Annotated[str | None, _rule("expected_seconds", "--expected", metavar=_DURATION)] = None
    speedup: Annotated[Words, _rule("speedup", "--speedup", metavar="WORKERS=SPEED", hint="; repeatable")] = None
    max_retries: Annotated[int | None, _rule("max_retries", "--max-retries", hint=" (default: 3)")] = None
    grace_seconds: Annotated[
        str | None, _rule("grace_seconds", "--grace", metavar=_DURATION, hint=" (default: 30s)")
    ] = None
    heartbeat_seconds: Annotated[
        str | None,
        _rule("heartbeat_seconds", "--heartbeat", metavar=_DURATION, hint=" (default: 10m, for scripts that report)"),
    ] = None
    cron: Annotated[
        str | None,
        _rule(
            "cron",
            "--cron",
            metavar="EXPRESSION",
            text='Submit the job at these times: "0 3 * * *" is daily at 03:00.',
        ),
    ] = None
    timezone: Annotated[
        str | None, _rule("timezone", "--timezone", metavar="ZONE", text="Time zone of --cron (default: UTC).")
    ] = None
    booking: Annotated[str | None, _rule("booking", "--booking", metavar="NAME", complete=complete_booking)] = None
    queue: Annotated[
        str | None,
        _rule("queue", "--queue", metavar="PATH", hint=" (default: that of its user)", complete=complete_queue),
    ] = None
    client_key: Annotated[str | None, _rule("client_key", "--client-key", metavar="KEY")] = None


def option_of(annotation: Any) -> str:
    """How an option is spelt in messages; an argument has no spelling."""
    names: tuple[str, ...] = annotation.__metadata__[0].param_decls
    return names[0].partition("/")[0] if names else ""


#: Flags that are another way to give a field.
_BESIDES = frozenset({"shell", "surplus_preemptible"})
#: The option that sets a field of a request, for messages.
OPTION_OF = {each.name: option_of(each.type) or each.name for each in fields(Flags) if each.name not in _BESIDES}
