"""What `sched submit` and `sched whatif` can be told of a job on their command lines: each field is an option."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.completion import complete_booking
from scheduler.model.job import Runtime

WHAT = "What to run"
_SIZE = "Workers and resources"
_RULES = "Scheduling"
_KEY_VALUE = "KEY=VALUE"

Words = list[str] | None
FileOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Job file (.yaml, .toml); options override it.", rich_help_panel=WHAT),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """None: not given."""

    command: Annotated[
        Words, typer.Argument(metavar="-- COMMAND [ARGS]...", help="Program with its arguments, or a job file.")
    ] = None
    shell: Annotated[
        str | None,
        typer.Option("--shell", "-c", help="Command line for /bin/sh, instead of COMMAND.", rich_help_panel=WHAT),
    ] = None
    name: Annotated[
        str | None,
        typer.Option("--name", help="Job name (default: name of the script or program).", rich_help_panel=WHAT),
    ] = None
    user: Annotated[str | None, typer.Option("--user", help="User (default: current user).", rich_help_panel=WHAT)] = (
        None
    )
    env: Annotated[
        Words,
        typer.Option(
            "--env",
            "-e",
            metavar="KEY[=VALUE]",
            help="Environment variable; KEY alone copies the current value; repeatable.",
            rich_help_panel=WHAT,
        ),
    ] = None
    export: Annotated[
        Words,
        typer.Option(
            "--export",
            metavar="NONE|ALL|NAME[=VALUE],...",
            help="Variables of your environment to pass on; --env overrides them (default: PATH, VIRTUAL_ENV, CONDA_*, "
            "PYTHONPATH, LD_LIBRARY_PATH). ALL excludes secrets, which must be named. Not for pods.",
            rich_help_panel=WHAT,
        ),
    ] = None
    workdir: Annotated[
        Path | None,
        typer.Option("--workdir", "-C", help="Working directory (default: current directory).", rich_help_panel=WHAT),
    ] = None
    labels: Annotated[
        Words, typer.Option("--label", "-l", metavar=_KEY_VALUE, help="Label; repeatable.", rich_help_panel=WHAT)
    ] = None
    runtime: Annotated[
        Runtime | None,
        typer.Option(
            "--runtime",
            help="Kind of script; elastic is for scripts that use scheduler.elastic (default: command).",
            rich_help_panel=WHAT,
        ),
    ] = None
    pod_template: Annotated[
        Path | None,
        typer.Option(
            "--pod-template",
            metavar="FILE",
            help="Pod template for Kubernetes (.yaml, .json).",
            rich_help_panel=WHAT,
        ),
    ] = None
    fixed: Annotated[
        Path | None,
        typer.Option(
            "--fixed",
            metavar="FILE",
            help="Fixed group, such as parameter servers or a master: file with replicas, command, … (.yaml, .toml).",
            rich_help_panel=WHAT,
        ),
    ] = None
    data: Annotated[
        Words,
        typer.Option(
            "--data",
            metavar=_KEY_VALUE,
            help="Data set for workers that take shards: shards=1000, epochs=3, shuffle=true; repeatable.",
            rich_help_panel=WHAT,
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option(
            "--workers",
            "-w",
            metavar="N|MIN-MAX",
            help="Number of workers, or minimum and maximum.",
            rich_help_panel=_SIZE,
        ),
    ] = None
    min_workers: Annotated[
        int | None, typer.Option("--min", "--min-workers", help="Minimum number of workers.", rich_help_panel=_SIZE)
    ] = None
    max_workers: Annotated[
        int | None, typer.Option("--max", "--max-workers", help="Maximum number of workers.", rich_help_panel=_SIZE)
    ] = None
    slots_per_worker: Annotated[
        int | None,
        typer.Option("--slots-per-worker", "--slots", help="Slots (GPUs) per worker.", rich_help_panel=_SIZE),
    ] = None
    cpus_per_worker: Annotated[float | None, typer.Option("--cpus", help="CPUs per worker.", rich_help_panel=_SIZE)] = (
        None
    )
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Memory per worker: 512MiB, 4GiB.", rich_help_panel=_SIZE),
    ] = None
    node_selector: Annotated[
        Words,
        typer.Option(
            "--node-selector",
            metavar=_KEY_VALUE,
            help="Use only nodes with this label; repeatable.",
            rich_help_panel=_SIZE,
        ),
    ] = None
    gpu_type: Annotated[
        str | None, typer.Option("--gpu-type", help="Use only GPUs of this type.", rich_help_panel=_SIZE)
    ] = None
    preferred_workers: Annotated[
        int | None,
        typer.Option(
            "--preferred",
            help="Number of workers under a policy that fixes sizes (default: the maximum).",
            rich_help_panel=_SIZE,
        ),
    ] = None
    oversell: Annotated[
        bool | None,
        typer.Option(
            "--oversell/--no-oversell",
            help="Allow the job to share oversold slots (default: no).",
            rich_help_panel=_SIZE,
        ),
    ] = None
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority", "-p", help="Priority; higher is more important (default: 0).", rich_help_panel=_RULES
        ),
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--not-preemptible",
            help="Allow more important jobs to take its slots (default: yes).",
            rich_help_panel=_RULES,
        ),
    ] = None
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="DURATION",
            help="Maximum running time of each attempt: 90s, 45m, 1h30m, 2d.",
            rich_help_panel=_RULES,
        ),
    ] = None
    expected: Annotated[
        str | None,
        typer.Option(
            "--expected",
            metavar="DURATION",
            help="Expected running time with the preferred number of workers.",
            rich_help_panel=_RULES,
        ),
    ] = None
    speedup: Annotated[
        Words,
        typer.Option(
            "--speedup",
            metavar="WORKERS=SPEED",
            help="Relative speed with this number of workers; repeatable.",
            rich_help_panel=_RULES,
        ),
    ] = None
    max_retries: Annotated[
        int | None,
        typer.Option(
            "--max-retries", help="Maximum number of restarts after failures (default: 3).", rich_help_panel=_RULES
        ),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="Time to exit after a request to stop, before SIGKILL (default: 30s).",
            rich_help_panel=_RULES,
        ),
    ] = None
    heartbeat: Annotated[
        str | None,
        typer.Option(
            "--heartbeat",
            metavar="DURATION",
            help="Treat a worker as hung after this time without a report; 0 turns that off (default: 10m, for scripts "
            "that report).",
            rich_help_panel=_RULES,
        ),
    ] = None
    cron: Annotated[
        str | None,
        typer.Option(
            "--cron",
            metavar="EXPRESSION",
            help='Submit the job at these times: "0 3 * * *" is daily at 03:00.',
            rich_help_panel=_RULES,
        ),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", metavar="ZONE", help="Time zone of --cron (default: UTC).", rich_help_panel=_RULES),
    ] = None
    booking: Annotated[
        str | None,
        typer.Option(
            "--booking",
            metavar="NAME",
            help="Run in the capacity and window of this booking.",
            autocompletion=complete_booking,
            rich_help_panel=_RULES,
        ),
    ] = None
    client_key: Annotated[
        str | None,
        typer.Option(
            "--client-key",
            metavar="KEY",
            help="Idempotency key: a repeated submission with this key returns the same job.",
            rich_help_panel=_RULES,
        ),
    ] = None


#: The option that sets a field of a request, for messages.
OPTION_OF = {
    "command": "command",
    "name": "--name",
    "user": "--user",
    "env": "--env",
    "export": "--export",
    "workdir": "--workdir",
    "labels": "--label",
    "runtime": "--runtime",
    "pod_template": "--pod-template",
    "fixed": "--fixed",
    "data": "--data",
    "priority": "--priority",
    "workers": "--workers",
    "min_workers": "--min",
    "max_workers": "--max",
    "slots_per_worker": "--slots-per-worker",
    "cpus_per_worker": "--cpus",
    "memory_mib_per_worker": "--memory",
    "node_selector": "--node-selector",
    "gpu_type": "--gpu-type",
    "time_limit_seconds": "--time-limit",
    "max_retries": "--max-retries",
    "grace_seconds": "--grace",
    "heartbeat_seconds": "--heartbeat",
    "preemptible": "--preemptible",
    "preferred_workers": "--preferred",
    "expected_seconds": "--expected",
    "speedup": "--speedup",
    "oversell": "--oversell",
    "booking": "--booking",
    "client_key": "--client-key",
    "cron": "--cron",
    "timezone": "--timezone",
}
