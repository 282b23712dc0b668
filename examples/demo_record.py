"""What the demo has seen: jobs, workers, events and resize pauses, read from the API as any user could."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from demo_daemon import Daemon

Row = dict[str, Any]
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of training that the workers measured: last step at the old size to first step at the new one."""

    at: float
    members: int
    seconds: float


@dataclass
class Record:
    """Everything so far. `began_at` is the zero of all times shown; unix seconds, as the API gives them."""

    daemon: Daemon
    began_at: float
    #: Job ids by name, in the order of submission.
    ids: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Row] = field(default_factory=dict)
    workers: dict[str, list[Row]] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    pauses: dict[str, list[Pause]] = field(default_factory=dict)
    #: (unix seconds, step) of each job as it was seen to advance.
    steps: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    logs_of: dict[str, str] = field(default_factory=dict)
    #: The worker that was killed, and when.
    killed: tuple[str, float] | None = None
    now: float = 0.0
    _after: int = 0

    def add(self, name: str, job_id: int) -> None:
        self.ids[name] = job_id
        self.pauses[name] = []
        self.steps[name] = []

    def update(self, now: float) -> list[Row]:
        """Look again; returns the events that are new."""
        self.now = now
        page = self.daemon.get("/v1/events", after=self._after, limit=_PAGE)
        fresh: list[Row] = page["events"]
        self.events += fresh
        self._after = page["next"]
        for name, job_id in self.ids.items():
            job = self.jobs[name] = self.daemon.get(f"/v1/jobs/{job_id}")
            self.workers[name] = self.daemon.get(f"/v1/jobs/{job_id}/workers", limit=_PAGE)["workers"]
            self._note_progress(name, job)
        return fresh

    def take_logs(self) -> None:
        """Keep the output of all jobs: the daemon is about to end."""
        self.logs_of = {name: self.logs(name) for name in self.ids}

    def logs(self, name: str) -> str:
        """The output of all workers that the job has had."""
        texts = []
        for worker in self.workers.get(name, ()):
            if worker["started_at"] is not None:
                path = f"/v1/jobs/{self.ids[name]}/logs"
                texts.append(self.daemon.text(path, worker=worker["id"], offset=0, limit=1 << 20))
        return "\n".join(texts)

    def events_of(self, name: str, kind: str) -> Iterator[Row]:
        """A job's events of one kind, oldest first."""
        wanted = self.ids.get(name)
        return (e for e in self.events if e["job_id"] == wanted and wanted is not None and e["kind"] == kind)

    def at(self, name: str, kind: str) -> float | None:
        """When this first happened to the job."""
        return next((float(e["at"]) for e in self.events_of(name, kind)), None)

    def sizes(self, name: str) -> list[tuple[float, int]]:
        """(unix seconds, members) of every membership that was published."""
        return [(float(e["at"]), int(e["amount"])) for e in self.events_of(name, "GENERATION_PUBLISHED")]

    def replacement(self) -> str | None:
        """The worker that the engine started in the place of the killed one."""
        if self.killed is None:
            return None
        told = f"{self.killed[0]} "
        found = (e["worker_id"] for e in self.events_of("low", "WORKER_REPLACED") if e["detail"].startswith(told))
        return next(found, None)

    def pause_after(self, name: str, since: float | None, members: int) -> float | None:
        """The first pause measured since then at this size, in seconds."""
        if since is None:
            return None
        return next((p.seconds for p in self.pauses[name] if p.at >= since and p.members == members), None)

    def _note_progress(self, name: str, job: Row) -> None:
        step, seconds = job["progress"]["step"], job["progress"]["resize_seconds"]
        pauses, steps = self.pauses[name], self.steps[name]
        if step is not None and (not steps or step > steps[-1][1]):
            steps.append((self.now, step))
        if seconds is not None and (not pauses or seconds != pauses[-1].seconds):
            pauses.append(Pause(self.now, job["members"], seconds))
