"""`python -m grafana.annotate`: follow the daemon's events, and mark them in Grafana for the dashboard of jobs.

Each event of a job is an annotation with the tags `sched`, the job's number and the event's kind. Only what happens
from now on is marked; where the daemon or Grafana is away, it goes on when both are back.
"""

import argparse
import json
import os
import signal
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

WAIT_SECONDS = 30
PAUSE_SECONDS = 2.0
#: Kinds that would be too many, and tell of workers rather than of the job.
LEFT_OUT = frozenset({"WORKER_STARTED", "WORKER_READY", "JOB_CHANGED", "GENERATION_PUBLISHED"})

Event = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grafana.annotate", description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default=os.environ.get("SCHED_URL", "http://127.0.0.1:8470"), help="the daemon")
    parser.add_argument("--grafana", default="http://127.0.0.1:3000")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for event in events(options.url, os.environ.get("SCHED_TOKEN")):
            if event["job_id"] is not None and event["kind"] not in LEFT_OUT:
                insist(f"{options.grafana}/api/annotations", annotation(event), os.environ.get("GRAFANA_TOKEN"))
    except KeyboardInterrupt:
        return 0
    return 0


def events(url: str, token: str | None) -> Iterator[Event]:
    """What happens from now on, without end."""
    after = insist(f"{url}/v1/events?after=-1&limit=1", None, token)["next"]
    print(f"following {url} after event {after}", flush=True)
    while True:
        query = urllib.parse.urlencode({"after": after, "limit": 1000, "wait": WAIT_SECONDS})
        page = insist(f"{url}/v1/events?{query}", None, token)
        after = page["next"]
        yield from page["events"]


def annotation(event: Event) -> dict[str, Any]:
    """The event as Grafana takes it."""
    parts = (event["kind"], event["cause"], event["detail"], event["for_job"] and f"for job {event['for_job']}")
    return {
        "time": round(event["at"] * 1000),
        "tags": ["sched", str(event["job_id"]), event["kind"]],
        "text": f"Job {event['job_id']}: " + " · ".join(str(part) for part in parts if part),
    }


def insist(url: str, body: dict[str, Any] | None, token: str | None) -> Any:
    """The answer, asked for until there is one."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS * 2) as answer:
                return json.load(answer)
        except (OSError, ValueError) as error:
            print(f"{url.partition('?')[0]}: {error}; asked again", file=sys.stderr, flush=True)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
