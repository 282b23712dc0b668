"""Jobs, workers and nodes as tables: which columns, which words, which colours. Reads API documents, prints nothing."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from scheduler.cli.render.datafields import data_rows
from scheduler.cli.render.output import Cell, Column, fields, table
from scheduler.cli.render.times import ago, span, stamp
from scheduler.model.words import rate_text

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]

STATE_STYLES = {
    "QUEUED": "yellow",
    "STARTING": "cyan",
    "RUNNING": "green",
    "RESIZING": "cyan",
    "STOPPING": "magenta",
    "SUSPENDED": "blue",
    "HELD": "red",
    "SUCCEEDED": "dim",
    "FAILED": "red",
    "CANCELLED": "dim",
    "RECURRING": "blue",
    "PLANNED": "yellow",
    "OPEN": "green",
    "UP": "green",
    "DOWN": "red",
    "ACTIVE": "",
    "CORDONED": "yellow",
    "DRAINING": "yellow",
    "QUARANTINED": "magenta",
    "LOST": "red",
    "READY": "green",
}
#: What is told of a job beside its priority, by what its field `preemptible` says.
_PREEMPTIBLE = {True: "", False: " (not preemptible)", "surplus": " (preemptible beyond its minimum)"}
_JOB_COLUMNS = (
    Column("ID", right=True),
    Column("NAME", fold=True),
    Column("STATE"),
    Column("PRIO", right=True),
    Column("WORKERS"),
    Column("SINCE"),
    Column("WHY", fold=True),
)


def state_cell(state: str) -> Cell:
    return state, STATE_STYLES.get(state, "")


def bounds(view: View) -> str:
    low, high = view["min_workers"], view["max_workers"]
    return str(low) if low == high else f"{low}-{high}"


def size(view: View) -> str:
    """Workers now and their bounds: `3 of 1-4`."""
    return f"{view['workers']} of {bounds(view)}"


def since(view: View) -> float | None:
    """When the job came to be what it is now, as closely as its view says."""
    for key in ("finished_at", "running_at", "started_at", "queued_at", "submitted_at"):
        at: float | None = view.get(key)
        if at is not None:
            return at
    return None


def why(view: View) -> str:
    """The reason it waits or was stopped, and for whom."""
    reason = view.get("reason") or ""
    behind = f" for job {view['for_job']}" if view.get("for_job") else ""
    return f"{reason}{behind}"


def job_table(jobs: list[View], recurring: list[View], now: float) -> "RenderableType":
    """The queue has a column where a job names one."""
    with_queue = any(each.get("queue") for each in (*jobs, *recurring))
    rows: list[list[Cell]] = [
        [
            str(job["id"]),
            job["name"],
            state_cell(job["state"]),
            str(job["priority"]),
            size(job),
            ago(since(job), now),
            why(job),
            job.get("queue") or "-",
        ]
        for job in jobs
    ]
    rows += [
        [
            each["id"],
            each["name"],
            state_cell("RECURRING"),
            str(each["priority"]),
            bounds(each),
            ago(each.get("next_run_at"), now),
            f"{each['cron']} {each['timezone']}" + (f"; not submitted: {each['refusal']}" if each["refusal"] else ""),
            each.get("queue") or "-",
        ]
        for each in recurring
    ]
    if not with_queue:
        return table(_JOB_COLUMNS, [row[:-1] for row in rows])
    return table((*_JOB_COLUMNS, Column("QUEUE", fold=True)), rows)


def worker_table(workers: list[View], now: float) -> "RenderableType":
    columns = (
        Column("WORKER"),
        Column("RANK", right=True),
        Column("NODE"),
        Column("SLOTS"),
        Column("STATE"),
        Column("GEN", right=True),
        Column("STARTED"),
        Column("LEAVES", fold=True),
        Column("DETAIL", fold=True),
    )
    rows = [
        [
            worker["id"],
            _rank(worker),
            worker["node"],
            ",".join(map(str, worker["slot_ids"])) + (" shared" if worker["shared"] else ""),
            state_cell(worker["state"]),
            str(worker.get("reported_generation") or "-"),
            ago(worker.get("started_at"), now),
            worker.get("leave_reason") or "",
            worker.get("detail") or "",
        ]
        for worker in workers
    ]
    return table(columns, rows)


def _rank(worker: View) -> str:
    """In the published group, or in the fixed group."""
    if worker.get("fixed_index") is not None:
        return f"fixed {worker['fixed_index']}"
    return "-" if worker.get("rank") is None else str(worker["rank"])


def node_table(nodes: list[View], now: float) -> "RenderableType":
    columns = (
        Column("NODE"),
        Column("HEALTH"),
        Column("INTENT"),
        Column("SLOTS", right=True),
        Column("SHARED", fold=True),
        Column("CPUS", right=True),
        Column("MEMORY", right=True),
        Column("GPU", fold=True),
        Column("LABELS", fold=True),
    )
    rows = [
        [
            node["name"],
            state_cell(node["health"]),
            _intent_cell(node, now),
            _slots(node),
            _extra(node),
            f"{node['cpus']:g}",
            _memory(node["memory_mib"]) if node["memory_mib"] else "-",
            node.get("gpu_type") or "-",
            mapping(node.get("labels") or {}),
        ]
        for node in nodes
    ]
    return table(columns, rows)


def _memory(mib: int) -> str:
    """`500 MiB`, `1.5 GiB`, `64 GiB`."""
    gib = mib / 1024
    if gib < 1:
        return f"{mib} MiB"
    return f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.2g} GiB"


def _slots(node: View) -> str:
    """Slots that workers hold, of how many, what others hold of them, and which are out of use."""
    counts = Counter(closed["closure"] for closed in node["closed_slots"])
    besides = [f"{node['slots_foreign']} foreign"] if node["slots_foreign"] else []
    besides += [f"{counts[each]} {each.lower()}" for each in ("UNHEALTHY", "UNREADABLE") if counts[each]]
    return f"{node['slots_used']}/{node['slots']}" + (f" ({', '.join(besides)})" if besides else "")


def closed_lines(nodes: list[View]) -> list[str]:
    """A line for each slot that takes no new workers although its node does."""
    return [
        f"{node['name']} slot {closed['slot']}: {closed['closure']}: {closed['detail']}"
        for node in nodes
        for closed in node["closed_slots"]
    ]


def _extra(node: View) -> str:
    """Slots given out beyond the physical ones, and to whom."""
    if not node["extra_slots"] and not node["extra_slots_used"]:
        return "-"
    shown = f"{node['extra_slots_used']}/{node['extra_slots']}"
    crowded = f"crowded: {','.join(map(str, node['crowded_slots']))}" if node["crowded_slots"] else ""
    return " ".join(part for part in (shown, *node["sharers"], crowded) if part)


def _intent_cell(node: View, now: float) -> Cell:
    text, style = node["intent"], STATE_STYLES.get(node["intent"], "")
    until = node.get("quarantined_until")
    if node["closed"] and text == "ACTIVE":
        return f"{text} ({node['closed']})", STATE_STYLES.get("CORDONED", "")
    return (f"{text} ({span(until - now)})" if text == "QUARANTINED" and until and until > now else text), style


def mapping(pairs: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in pairs.items())


def when(at: float | None, now: float) -> str:
    return "-" if at is None else f"{stamp(at)} ({ago(at, now)})"


def job_fields(view: View, now: float) -> "RenderableType":
    """All that is known of one job, without what is empty."""
    progress = view["progress"]
    rows: list[tuple[str, Cell]] = [
        ("job", f"{view['id']} {view['name']}"),
        ("state", state_cell(view["state"])),
        ("why", why(view)),
        ("detail", view["detail"]),
        ("exit code", _text(view["exit_code"])),
        ("user", view["user"]),
        ("priority", f"{view['priority']}" + _PREEMPTIBLE[view["preemptible"]]),
        ("workers", size(view)),
        ("resources per worker", _needs(view)),
        ("fixed group", _fixed(view)),
        ("generation", f"{view['generation']} ({view['members']} members)" if view["generation"] else ""),
        ("attempt", f"{view['attempt']} ({view['retries_used']} of {view['max_retries']} retries used)"),
        ("runtime", view["runtime"]),
        ("booking", _text(view["booking"])),
        ("queue", _text(view.get("queue"))),
        ("command", " ".join(view["command"])),
        ("workdir", view["workdir"] or ""),
        *_variables("env", view["env"]),
        *_variables("fixed env", view["fixed_env"]),
        *_variables("exported", view["export"]["env"] if view["export"] else {}),
        ("labels", mapping(view["labels"])),
        ("submitted", when(view["submitted_at"], now)),
        ("started", when(view["first_started_at"], now)),
        ("this attempt", when(view["started_at"], now) if view["attempt"] > 1 else ""),
        ("finished", when(view["finished_at"], now)),
        ("time limit", span(view["time_limit_seconds"]) if view["time_limit_seconds"] else ""),
        *data_rows(view, now),
        ("progress", _progress(progress, now)),
        ("metrics", ", ".join(f"{name} {value:.6g}" for name, value in progress["metrics"].items())),
        ("throughput", ", ".join(f"{count} workers {rate_text(rate)}/s" for count, rate in progress["throughput"])),
        ("efficiency", "" if progress["efficiency"] is None else f"{progress['efficiency']:.3g} of each sample"),
        ("reserved", _reserved(view)),
    ]
    return fields((name, cell) for name, cell in rows if cell not in ("", "-"))


def _variables(title: str, env: dict[str, str]) -> list[tuple[str, Cell]]:
    """One line each, since values may be long and hold blanks."""
    return [(title if number == 0 else "", f"{name}={value}") for number, (name, value) in enumerate(env.items())]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _needs(view: View) -> str:
    slots = view["slots_per_worker"]
    cpus, memory, gpu = view["cpus_per_worker"], view["memory_mib_per_worker"], view["gpu_type"]
    parts = [
        f"{slots} slot{'' if slots == 1 else 's'}",
        f"{cpus:g} CPUs" if cpus else "",
        f"{memory} MiB" if memory else "",
        f"GPU {gpu}" if gpu else "",
        "slots may be shared" if view["oversell"] else "",
        f"node with {mapping(view['node_selector'])}" if view["node_selector"] else "",
    ]
    return ", ".join(part for part in parts if part)


def _fixed(view: View) -> str:
    """How many fixed workers there are of how many, what each needs, and where they listen."""
    group = view["fixed"]
    if group is None:
        return ""
    shown = f"{group['workers']} of {group['replicas']}, each {_needs({**group, 'oversell': False})}"
    return f"{shown}: {' '.join(group['hosts'])}" if group["hosts"] else shown


def _reserved(view: View) -> str:
    where = ", ".join(f"{node} ×{count}" for node, count in view["reservation"])
    fixed = ", ".join(f"{node} ×{count}" for node, count in view["fixed_reservation"])
    where += f"; fixed: {fixed}" if fixed else ""
    return f"{where} to share" if view["reservation_shared"] else where


def _progress(progress: View, now: float) -> str:
    parts = [
        f"step {progress['step']}" if progress.get("step") is not None else "",
        f"epoch {progress['epoch']}" if progress.get("epoch") is not None else "",
        f"{rate_text(progress['samples_per_second'])} samples/s" if progress.get("samples_per_second") else "",
        f"last commit {ago(progress['last_commit_at'], now)}" if progress.get("last_commit_at") else "",
        f"last checkpoint {ago(progress['last_checkpoint_at'], now)}" if progress.get("last_checkpoint_at") else "",
        f"last resize {progress['resize_seconds']:.2f}s" if progress.get("resize_seconds") else "",
    ]
    return ", ".join(part for part in parts if part)


def recurring_fields(view: View, now: float) -> "RenderableType":
    """One recurring job."""
    rows: list[tuple[str, Cell]] = [
        ("recurring job", f"{view['id']} {view['name']}"),
        ("state", state_cell("RECURRING")),
        ("schedule", f"{view['cron']} ({view['timezone']})"),
        ("next run", when(view["next_run_at"], now)),
        ("last run", when(view["last_run_at"], now)),
        ("not submitted", view["refusal"] or ""),
        ("user", view["user"]),
        ("workers", bounds(view)),
        ("priority", str(view["priority"])),
        ("queue", _text(view.get("queue"))),
        ("command", " ".join(view["command"])),
        *_variables("exported", view["export"]["env"] if view["export"] else {}),
        ("created", when(view["created_at"], now)),
    ]
    return fields((name, cell) for name, cell in rows if cell not in ("", "-"))
