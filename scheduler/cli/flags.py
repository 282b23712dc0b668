"""What `sched submit` and `sched whatif` can be told of a job on their command lines: each field is an option."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.completion import complete_booking
from scheduler.model.job import Runtime

WHAT = "What to run"
_SIZE = "Workers and what each needs"
_RULES = "Rules"
_KEY_VALUE = "KEY=VALUE"

Words = list[str] | None
FileOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Job file (.yaml, .toml); options win over it.", rich_help_panel=WHAT),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """None: not given."""

    command: Annotated[
        Words, typer.Argument(metavar="-- COMMAND [ARGS]...", help="Program and arguments; or a job file.")
    ] = None
    shell: Annotated[
        str | None, typer.Option("--shell", "-c", help="A line for /bin/sh instead.", rich_help_panel=WHAT)
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", help="Name (default: of the script or program).", rich_help_panel=WHAT)
    ] = None
    user: Annotated[str | None, typer.Option("--user", help="User (default: who calls).", rich_help_panel=WHAT)] = None
    env: Annotated[
        Words,
        typer.Option(
            "--env",
            "-e",
            metavar="KEY[=VALUE]",
            help="Environment variable; KEY alone copies its value from here; repeatable.",
            rich_help_panel=WHAT,
        ),
    ] = None
    export: Annotated[
        Words,
        typer.Option(
            "--export",
            metavar="NONE|ALL|NAME[=VALUE],...",
            help="What it takes of your environment, below --env (default: PATH, VIRTUAL_ENV, CONDA_*, PYTHONPATH, "
            "LD_LIBRARY_PATH). ALL leaves out secrets, which are taken only by name. Not for pods.",
            rich_help_panel=WHAT,
        ),
    ] = None
    workdir: Annotated[
        Path | None,
        typer.Option("--workdir", "-C", help="Where it runs (default: this directory).", rich_help_panel=WHAT),
    ] = None
    labels: Annotated[
        Words, typer.Option("--label", "-l", metavar=_KEY_VALUE, help="Label; repeatable.", rich_help_panel=WHAT)
    ] = None
    runtime: Annotated[
        Runtime | None,
        typer.Option(
            "--runtime",
            help="elastic: a script that uses scheduler.elastic; torchrun, horovod: any of these (default: command).",
            rich_help_panel=WHAT,
        ),
    ] = None
    pod_template: Annotated[
        Path | None,
        typer.Option(
            "--pod-template",
            metavar="FILE",
            help="On Kubernetes: what its pods are built upon (.yaml, .json).",
            rich_help_panel=WHAT,
        ),
    ] = None
    fixed: Annotated[
        Path | None,
        typer.Option(
            "--fixed",
            metavar="FILE",
            help="Its fixed group (replicas, command, …): parameter servers, a master (.yaml, .toml).",
            rich_help_panel=WHAT,
        ),
    ] = None
    data: Annotated[
        Words,
        typer.Option(
            "--data",
            metavar=_KEY_VALUE,
            help="Its data set for workers that take shards: shards=1000, epochs=3, shuffle=true; repeatable.",
            rich_help_panel=WHAT,
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option("--workers", "-w", metavar="N|MIN-MAX", help="Number of workers.", rich_help_panel=_SIZE),
    ] = None
    min_workers: Annotated[
        int | None, typer.Option("--min", "--min-workers", help="Fewest workers.", rich_help_panel=_SIZE)
    ] = None
    max_workers: Annotated[
        int | None, typer.Option("--max", "--max-workers", help="Most workers.", rich_help_panel=_SIZE)
    ] = None
    slots_per_worker: Annotated[
        int | None, typer.Option("--slots-per-worker", "--slots", help="Slots of each.", rich_help_panel=_SIZE)
    ] = None
    cpus_per_worker: Annotated[float | None, typer.Option("--cpus", help="CPUs of each.", rich_help_panel=_SIZE)] = None
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Memory of each: 512MiB, 4GiB.", rich_help_panel=_SIZE),
    ] = None
    node_selector: Annotated[
        Words,
        typer.Option(
            "--node-selector", metavar=_KEY_VALUE, help="Only on nodes with it; repeatable.", rich_help_panel=_SIZE
        ),
    ] = None
    gpu_type: Annotated[
        str | None, typer.Option("--gpu-type", help="Only on this type of GPU.", rich_help_panel=_SIZE)
    ] = None
    preferred_workers: Annotated[
        int | None,
        typer.Option("--preferred", help="Workers where sizes are fixed (default: the most).", rich_help_panel=_SIZE),
    ] = None
    oversell: Annotated[
        bool | None,
        typer.Option(
            "--oversell/--no-oversell",
            help="Whether it may share slots beyond the physical count (default: no).",
            rich_help_panel=_SIZE,
        ),
    ] = None
    priority: Annotated[
        int | None, typer.Option("--priority", "-p", help="Higher goes first (default: 0).", rich_help_panel=_RULES)
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--not-preemptible",
            help="Whether more important jobs may take its slots (default: yes).",
            rich_help_panel=_RULES,
        ),
    ] = None
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit", metavar="DURATION", help="Wall time: 90s, 45m, 1h30m, 2d.", rich_help_panel=_RULES
        ),
    ] = None
    expected: Annotated[
        str | None,
        typer.Option(
            "--expected", metavar="DURATION", help="How long it runs, as far as you know.", rich_help_panel=_RULES
        ),
    ] = None
    speedup: Annotated[
        Words,
        typer.Option(
            "--speedup", metavar="WORKERS=SPEED", help="Speed with so many workers; repeatable.", rich_help_panel=_RULES
        ),
    ] = None
    max_retries: Annotated[
        int | None,
        typer.Option("--max-retries", help="Restarts after failures (default: 3).", rich_help_panel=_RULES),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="From being asked to leave to being killed (default: 30s).",
            rich_help_panel=_RULES,
        ),
    ] = None
    heartbeat: Annotated[
        str | None,
        typer.Option(
            "--heartbeat", metavar="DURATION", help="Silence after which a worker is hung.", rich_help_panel=_RULES
        ),
    ] = None
    cron: Annotated[
        str | None,
        typer.Option(
            "--cron",
            metavar="EXPRESSION",
            help='Submit it at these times: "0 3 * * *" is daily at 3.',
            rich_help_panel=_RULES,
        ),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", metavar="ZONE", help="Zone of --cron (default: UTC).", rich_help_panel=_RULES),
    ] = None
    booking: Annotated[
        str | None,
        typer.Option(
            "--booking",
            metavar="NAME",
            help="In this booking's capacity and window.",
            autocompletion=complete_booking,
            rich_help_panel=_RULES,
        ),
    ] = None
    client_key: Annotated[
        str | None,
        typer.Option(
            "--client-key", metavar="KEY", help="The same key again gives the same job.", rich_help_panel=_RULES
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
