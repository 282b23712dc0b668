"""Two real PyTorch trainings share four slots: the less important one gives up workers, and gets them back.

    make demo                                    # or: python examples/demo.py

It starts a daemon of its own on SQLite, submits a low-priority elastic job (1 to 4 workers) and, once that trains on
all slots, a high-priority one (2 workers); kills a worker of the low job with SIGKILL; and looks whether the low job
trained on all the time and saw every sample of every epoch exactly once. Exit status 0 only if all of it happened.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo_checks import missing, results
from demo_daemon import Daemon, DemoError
from demo_picture import picture
from demo_record import Record
from demo_timeline import timeline
from demo_view import View, show_view

SLOTS = 4
POLL_SECONDS = 0.15
#: Of each step of the story; a machine that does much else takes its time to import torch.
WAIT_SECONDS_MAX = 180.0
DIGITS = Path(__file__).resolve().parent / "digits.py"


class Story:
    """What happens, in order; each wait has an end."""

    def __init__(self, daemon: Daemon, view: View, options: argparse.Namespace) -> None:
        self._daemon = daemon
        self._view = view
        self._options = options
        self.record = Record(daemon, time.time())

    def tell(self) -> None:
        low, high = self._options.low_epochs, self._options.high_epochs
        self._submit("low", priority=0, bounds=(1, SLOTS), epochs=low)
        self._wait("low trains on all four slots", lambda: self._trains("low", SLOTS) and self._steps("low") >= 10)
        self._submit("high", priority=10, bounds=(2, 2), epochs=high)
        self._wait("low has shrunk to two workers, high runs", self._both_run)
        seen = self._steps("low")
        self._wait("low keeps training", lambda: self._steps("low") >= seen + 5)
        self._kill_a_worker()
        self._wait("the killed worker is replaced", self._replaced)
        self._wait("high ends", lambda: self._ended("high"))
        self._wait("low grows to all four slots", lambda: self._trains("low", SLOTS) or self._ended("low"))
        self._wait("low finishes", lambda: self._ended("low"))

    def _submit(self, name: str, priority: int, bounds: tuple[int, int], epochs: int) -> None:
        command = [sys.executable, str(DIGITS), "--epochs", str(epochs)]
        job = {
            "name": name,
            "command": [*command, "--sample-seconds", str(self._options.sample_seconds)],
            "workdir": str(DIGITS.parent.parent),
            "runtime": "elastic",
            "priority": priority,
            "min_workers": bounds[0],
            "max_workers": bounds[1],
            "grace_seconds": 10.0,
            "env": {"OMP_NUM_THREADS": "1"},
        }
        self.record.add(name, self._daemon.post("/v1/jobs", job)["id"])
        self._view.say(self.record, f"submitted {name}: priority {priority}, {bounds[0]} to {bounds[1]} workers")

    def _kill_a_worker(self) -> None:
        """The oldest one, which holds rank 0."""
        worker = next(w for w in self.record.jobs["low"]["live_workers"] if w["rank"] == 0)
        self._daemon.worker_process(worker["id"]).send_signal(signal.SIGKILL)
        self.record.killed = (worker["id"], time.time())
        self._view.say(self.record, f"killed worker {worker['id']} (rank 0 of low) with SIGKILL")

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            fresh = self.record.update(time.time())
            self._view.update(self.record, fresh)
            if done():
                self._view.say(self.record, what)
                return
            failed = [n for n, job in self.record.jobs.items() if job["state"] in ("FAILED", "CANCELLED")]
            if failed:
                raise DemoError(f"job {failed[0]} {self.record.jobs[failed[0]]['state']}: {self._why(failed[0])}")
            if time.monotonic() > deadline:
                raise DemoError(f"timed out after {WAIT_SECONDS_MAX:g} s: {what} ({self._explained()})")
            time.sleep(POLL_SECONDS)

    def _explained(self) -> str:
        """What the scheduler says of each job, as `sched explain` does."""
        said = {name: self._daemon.get(f"/v1/jobs/{job}/explain")["summary"] for name, job in self.record.ids.items()}
        return "; ".join(f"{name}: {summary}" for name, summary in said.items())

    def _why(self, name: str) -> str:
        last = self.record.logs(name).strip().splitlines()[-3:]
        return " / ".join([self.record.jobs[name]["detail"], *last])

    def _trains(self, name: str, members: int) -> bool:
        job = self.record.jobs[name]
        return job["state"] == "RUNNING" and job["members"] == job["workers"] == members

    def _both_run(self) -> bool:
        return self._trains("low", 2) and self._trains("high", 2)

    def _steps(self, name: str) -> int:
        return self.record.steps[name][-1][1] if self.record.steps[name] else 0

    def _ended(self, name: str) -> bool:
        return bool(self.record.jobs[name]["state"] == "SUCCEEDED")

    def _replaced(self) -> bool:
        replacement = self.record.replacement()
        live = self.record.jobs["low"]["live_workers"]
        return replacement is not None and any(w["id"] == replacement and w["rank"] is not None for w in live)


def run(options: argparse.Namespace) -> int:
    """The demo from its start to the report; the exit status."""
    began = time.monotonic()
    problems: list[str] = []
    record: Record | None = None
    daemon = Daemon(SLOTS)
    with daemon, show_view(SLOTS) as view:
        story = Story(daemon, view, options)
        record = story.record
        try:
            story.tell()
        except DemoError as error:
            problems.append(str(error))
        try:
            record.update(time.time())
            record.take_logs()
        except DemoError as error:
            problems.append(str(error))
    problems += missing(record, SLOTS, {"low": options.low_epochs, "high": options.high_epochs})
    problems += [f"process {p.pid} is still running" for p in daemon.processes()]
    report(record, problems, time.monotonic() - began, options)
    return 1 if problems else 0


def report(record: Record, problems: list[str], seconds: float, options: argparse.Namespace) -> None:
    print("\n" + timeline(record, SLOTS))
    figures = results(record)
    for name, accuracy in figures["accuracy"].items():
        print(f"{name:>5}: accuracy {accuracy:.3f}" if accuracy is not None else f"{name:>5}: no accuracy")
    print()
    for label, value in figures["seconds"].items():
        print(f"  {label:<62} " + (f"{value:6.2f} s" if value is not None else "     -"))
    print(f"\nThe demo took {seconds:.0f} s.")
    if options.json:
        document: dict[str, Any] = {**figures, "demo_seconds": round(seconds, 1), "missing": problems}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    if options.picture:
        options.picture.write_text(picture(record, SLOTS))
    for problem in problems:
        print(f"MISSING: {problem}", file=sys.stderr)
    if not problems:
        print("Success: no step was lost, and every sample of every epoch was seen exactly once.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--low-epochs", type=int, default=20, help="length of the low-priority job")
    parser.add_argument("--high-epochs", type=int, default=6, help="length of the high-priority job")
    parser.add_argument("--sample-seconds", type=float, default=0.00625, help="minimum duration of a sample's work")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the measurements")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="file for the timeline (SVG)")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return run(options)
    except KeyboardInterrupt:
        print("interrupted: stopping the daemon and the jobs", file=sys.stderr)
        return 130
    except DemoError as error:
        print(f"MISSING: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
