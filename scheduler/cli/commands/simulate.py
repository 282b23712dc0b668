"""`sched simulate`: what would become of a workload under these settings, in virtual time and without a daemon."""

import os
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.cli.command import DAEMON, OUTPUT, Session, command
from scheduler.cli.commands.simulated_faults import parse_faults
from scheduler.cli.input.quantities import duration_seconds
from scheduler.cli.render.output import emit_json, note, show
from scheduler.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.progress import TaskID

    from scheduler.config import Settings
    from scheduler.model.observation import NodeObservation
    from scheduler.simulate.result import Result
    from scheduler.simulate.run import Setup
    from scheduler.simulate.workload import Workload

_WORKLOAD = "Workload"
_CLUSTER = "Cluster and scheduler"


class Knowledge(StrEnum):
    """What users may tell the scheduler beforehand."""

    DURATIONS = "durations"
    SPEEDUPS = "speedups"


class Batch(StrEnum):
    """Who chooses batch sizes."""

    FIXED = "fixed"
    TUNED = "tuned"


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """What the jobs are and what is known of them."""

    profiles: Annotated[
        Path | None,
        typer.Option(
            "--profiles",
            metavar="DIR",
            help="Measured profiles for workloads of AdaptDL, one directory per application.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = None
    batch: Annotated[
        Batch,
        typer.Option(
            "--batch",
            help="tuned: workers choose their batch size (workloads of AdaptDL only).",
            rich_help_panel=_WORKLOAD,
        ),
    ] = Batch.FIXED
    speed: Annotated[
        str,
        typer.Option(
            "--speed",
            metavar="CURVE",
            help='Speed-up of jobs without one in the workload: linear, "amdahl 0.05", "1=1 2=1.9 4=3.4".',
            rich_help_panel=_WORKLOAD,
        ),
    ] = "linear"
    declare: Annotated[
        list[Knowledge] | None,
        typer.Option(
            "--declare",
            help="What jobs declare in advance, taken from the true model; repeatable.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = None
    progress: Annotated[
        bool,
        typer.Option(
            "--progress/--no-progress",
            help="Let workers report the fraction of the job that is done.",
            rich_help_panel=_WORKLOAD,
        ),
    ] = True
    noise: Annotated[
        float,
        typer.Option(
            "--noise", help="Deviation of true speeds from the known ones: 0.1 is 10 %.", rich_help_panel=_WORKLOAD
        ),
    ] = 0.0
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random numbers.", rich_help_panel=_WORKLOAD)] = 0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Machines, settings, and when decisions are made."""

    nodes: Annotated[
        str,
        typer.Option(
            "--nodes",
            "-n",
            metavar="NxSLOTS|FILE",
            help="16x4 for 16 nodes of 4 slots, or a CSV or YAML file with one row per node.",
            rich_help_panel=_CLUSTER,
        ),
    ] = "16x4"
    queues: Annotated[
        Path | None,
        typer.Option(
            "--queues",
            metavar="FILE",
            help="YAML file with a list of queues (path, guarantee, limit, weight, share_users, user_limit).",
            rich_help_panel=_CLUSTER,
        ),
    ] = None
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Policy; repeat to compare several.", rich_help_panel=_CLUSTER),
    ] = None
    comparisons: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="NAME=VALUE,...",
            help="Settings to compare, such as policy.grow_cooldown_seconds=300; repeatable.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="TOML file with settings.", rich_help_panel=_CLUSTER),
    ] = None
    every: Annotated[
        str,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="Interval between decisions (default: decide at every change, as the daemon does).",
            rich_help_panel=_CLUSTER,
        ),
    ] = "0"
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            metavar="KEY=DURATION,...",
            help="What goes wrong, as mean times between failures: workers=24h (of a worker of one slot), nodes=7d, "
            "daemon=1d; node_away=10m and daemon_away=1m say for how long. Drawn with --seed.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None
    until: Annotated[
        str,
        typer.Option(
            "--until", metavar="DURATION", help="Virtual time at which the simulation stops.", rich_help_panel=_CLUSTER
        ),
    ] = "3650d"


def simulate(
    session: Session,
    workload: Annotated[
        str,
        typer.Argument(metavar="WORKLOAD", help="CSV or YAML file, poisson[:KEY=VALUE,...] or kueue[:KEY=VALUE,...]."),
    ],
    jobs: WorkloadOptions,
    cluster: ClusterOptions,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Draw slots, queue and utilization over time to a .png or .svg file."
        ),
    ] = None,
) -> None:
    """Simulate a workload in virtual time and compare policies side by side.

    Needs no daemon: the engine and the planner of the daemon run on a simulated cluster.
    """
    from scheduler.simulate.nodes import read_nodes
    from scheduler.simulate.variants import variants

    draw = _pencil(picture)
    chosen = variants(cluster.config, cluster.policies or [], cluster.comparisons or [])
    nodes = read_nodes(cluster.nodes, "--nodes")
    what = _in_queues(_workload(workload, jobs, max(node.slots for node in nodes)), cluster.queues)
    results = _run_all(what, [(each.label, _setup(each.settings, nodes, jobs, cluster)) for each in chosen])
    _show(session, results)
    draw(results)


def _workload(name: str, jobs: WorkloadOptions, node_slots: int) -> "Workload":
    from scheduler.simulate.declare import declared, noisy
    from scheduler.simulate.read import Source, read_workload
    from scheduler.simulate.speed import parse_speedup

    if not 0 <= jobs.noise <= 10:
        raise InvalidInput("--noise", f"{jobs.noise} is not between 0 and 10")
    source = Source(jobs.profiles, jobs.batch is Batch.TUNED, parse_speedup(jobs.speed, "--speed"), jobs.seed)
    known = jobs.declare or []
    said = declared(
        read_workload(name, source),
        node_slots,
        durations=Knowledge.DURATIONS in known,
        speedups=Knowledge.SPEEDUPS in known,
    )
    return noisy(said, jobs.noise, jobs.seed)


def _in_queues(workload: "Workload", queues: Path | None) -> "Workload":
    from scheduler.simulate.queues import check_jobs, read_queues

    given = workload if queues is None else replace(workload, queues=read_queues(queues))
    check_jobs(given)
    return given


def _setup(
    settings: "Settings", nodes: "tuple[NodeObservation, ...]", jobs: WorkloadOptions, cluster: ClusterOptions
) -> "Setup":
    from scheduler.simulate.run import Setup

    return Setup(
        nodes=nodes,
        settings=settings,
        every_seconds=_round_seconds(cluster.every),
        tells_fraction=jobs.progress,
        until_seconds=duration_seconds(cluster.until, "--until"),
        faults=parse_faults(cluster.faults, jobs.seed),
    )


def _round_seconds(text: str) -> float:
    from scheduler.simulate.timer import GAP_SECONDS_MIN

    seconds = duration_seconds(text, "--every")
    if 0 < seconds < GAP_SECONDS_MIN:
        raise InvalidInput(
            "--every",
            f"{text!r} is shorter than {GAP_SECONDS_MIN:g} s: use a longer interval, or 0 for none",
        )
    return seconds


def _run_all(what: "Workload", setups: "list[tuple[str, Setup]]") -> "dict[str, Result]":
    """Each variant's result, with a progress bar where a person watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from scheduler.simulate.run import simulate as play

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results = {}
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        for label, setup in setups:
            task = progress.add_task(label, total=len(what.submissions))

            def watch(ended: int, _seconds: float, task: "TaskID" = task) -> None:
                progress.update(task, completed=ended)

            results[label] = play(what, setup, watch)
    return results


def _show(session: Session, results: "dict[str, Result]") -> None:
    from scheduler.cli.render.simulated import summary_table
    from scheduler.simulate.summary import failed, summarize, unfinished

    summaries = {label: summarize(result) for label, result in results.items()}
    if session.json:
        emit_json({label: _document(results[label], asdict(summary)) for label, summary in summaries.items()})
    else:
        show(summary_table(summaries))
    for label, result in results.items():
        for what, jobs in (("did not end", unfinished(result)), ("failed", failed(result))):
            if jobs:
                first = f"{jobs[0].name} ({jobs[0].state})"
                note(f"{label}: {len(jobs)} of {len(result.jobs)} jobs {what}, first {first}")


def _document(result: "Result", summary: dict[str, Any]) -> dict[str, Any]:
    from scheduler.simulate.usage import usage

    jobs = [
        {**asdict(job), "waiting_seconds": job.waiting_seconds, "completion_seconds": job.completion_seconds}
        for job in result.jobs
    ]
    return {"summary": summary, "usage": [asdict(use) for use in usage(result)], "jobs": jobs}


def _pencil(path: Path | None) -> "Callable[[Mapping[str, Result]], None]":
    """What draws the results; refuses before the work what could not be drawn after it."""
    if path is None:
        return lambda results: None
    if path.suffix.lower() not in (".png", ".svg"):
        raise InvalidInput("--picture", f"{path}: the file name must end in .png or .svg")
    if not os.path.isdir(path.parent):
        raise InvalidInput("--picture", f"{path.parent}: no such directory")
    from scheduler.simulate.extras import needs

    with needs("matplotlib"):
        from scheduler.simulate.picture import draw
    return lambda results: draw(results, path)


def register(app: typer.Typer) -> None:
    command(app, "simulate", DAEMON, common=OUTPUT)(simulate)
