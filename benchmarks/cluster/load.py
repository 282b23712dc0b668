"""A real load on an address of the cluster, by wrk: phases, each with a rate of requests and a length.

wrk waits after each answer of a connection, so that the rate is that of its connections: it never asks faster.
"""

import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from benchmarks.trouble import Skipped

#: Between an answer and the next request of a connection.
_DELAY_SECONDS = 0.1
#: Requests per second of one connection, if answers take no time.
PER_CONNECTION = 1.0 / _DELAY_SECONDS
CONNECTIONS_MAX, SECONDS_MAX = 64, 300.0
_MORE_SECONDS = 60.0
_SCRIPT = """
function delay() return %d end
function done(summary, latency, requests)
  local counts = {}
  for i = 1, #latency do
    local us, count = latency(i)
    counts[i] = string.format("[%%d, %%d]", us, count)
  end
  local e = summary.errors
  io.write(string.format('\\nCOUNTED {"requests": %%d, "failed": %%d, "latency": [%%s]}\\n', summary.requests,
    e.connect + e.read + e.write + e.status + e.timeout, table.concat(counts, ", ")))
end
"""


@dataclass(slots=True)
class Answers:
    """What came of the requests."""

    requests: int = 0
    failed: int = 0
    #: Number of requests by the microseconds until their answer.
    latency: Counter[int] = field(default_factory=Counter)

    def percentile_ms(self, share: float) -> float:
        """Milliseconds within which this share was answered."""
        left = share * self.latency.total()
        for us in sorted(self.latency):
            left -= self.latency[us]
            if left <= 0:
                return us / 1000.0
        raise ValueError("nothing was answered")

    def add(self, text: str) -> None:
        """What wrk has written of a phase."""
        counted = [line.removeprefix("COUNTED ") for line in text.splitlines() if line.startswith("COUNTED ")]
        if len(counted) != 1:
            raise RuntimeError(f"wrk said what was not expected: {text}")
        found = json.loads(counted[0])
        self.requests += found["requests"]
        self.failed += found["failed"]
        for us, count in found["latency"]:
            self.latency[us] += count


def load(address: str, phases: Sequence[tuple[float, int]]) -> Answers:
    """(seconds, connections) each. Only private addresses, and bounded in time and number."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise Skipped("no wrk here: apt-get install wrk")
    if not ip_address(address.partition(":")[0]).is_private:
        raise Skipped(f"{address} is no address of a cluster on this machine")
    if sum(seconds for seconds, _ in phases) > SECONDS_MAX or max(count for _, count in phases) > CONNECTIONS_MAX:
        raise ValueError(f"at most {CONNECTIONS_MAX} connections, and {SECONDS_MAX:g} s in all")
    answers = Answers()
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        script = Path(directory) / "load.lua"
        script.write_text(_SCRIPT % round(_DELAY_SECONDS * 1000))
        for seconds, connections in phases:
            command = [wrk, "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "-s", str(script), f"http://{address}/"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + _MORE_SECONDS, check=True)
            answers.add(done.stdout)
    return answers
