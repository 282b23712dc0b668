"""discover_hosts under load: 1,000 running jobs, the engine ticking, the daemon on one core; beside nginx on that core.

The load comes from wrk (Debian's package) on the other cores, over keep-alive connections, for random jobs.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.daemon import Daemon, kill_all_that_mention
from benchmarks.figure import Figure
from benchmarks.trouble import Skipped

JOBS = 1_000
SECONDS, CONNECTIONS = 10, 32
_START_SECONDS_MAX = 120.0
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def run() -> list[Figure]:
    wrk = shutil.which("wrk")
    if wrk is None:
        raise Skipped("no wrk here: apt-get install wrk")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Skipped("needs two cores: one for the daemon, one for the load")
    with Daemon(JOBS, core=cores[-1]) as daemon:
        ids = daemon.submit_batch([{"command": ["sleep", "1000"]}] * JOBS)
        _until_all_run(daemon)
        path = f"/v1/jobs/{ids[0]}/discover_hosts"
        body = daemon.http.get(path, headers={"accept": "text/plain"}).text
        began = daemon.cpu_seconds()
        rate, p99 = _load(wrk, cores[:-1], daemon.url, ids[0], ids[-1])
        per_second = rate * SECONDS / (daemon.cpu_seconds() - began)
    load = f"{JOBS:,} running jobs; {per_second:,.0f} requests per second of the daemon's CPU time"
    figures = [
        Figure("discover_hosts, daemon on one core", rate, "requests/s", at_least=20_000, note=load),
        Figure("discover_hosts, 99 % answered within", p99, "ms", at_most=10.0, note=f"{CONNECTIONS} connections"),
    ]
    try:
        with _Nginx(body, cores[-1]) as url:
            rate, p99 = _load(wrk, cores[:-1], url, ids[0], ids[-1])
        figures.append(
            Figure("nginx, the same bytes on one core", rate, "requests/s", note=f"99 % within {p99:.3g} ms")
        )
    except Skipped as reason:
        figures.append(Figure("nginx", None, "requests/s", note=str(reason)))
    return figures


def _until_all_run(daemon: Daemon) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while len(daemon.get("/v1/jobs", state="RUNNING", limit=JOBS)["jobs"]) < JOBS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{JOBS} jobs do not run within {_START_SECONDS_MAX:g} s")
        time.sleep(0.5)


def _load(wrk: str, cores: list[int], url: str, first: int, last: int) -> tuple[float, float]:
    """(requests per second, milliseconds within which 99 % were answered)."""
    # The requests are built beforehand: building them costs wrk more than sending them.
    script = f"""
local requests = {{}}
init = function()
  for job = {first}, {last} do
    requests[#requests + 1] = wrk.format("GET", "/v1/jobs/" .. job .. "/discover_hosts")
  end
end
request = function()
  return requests[math.random(#requests)]
end
"""
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        lua = Path(directory) / "load.lua"
        lua.write_text(script)
        command = ["taskset", "-c", ",".join(map(str, cores)), wrk, "--latency", "-t1", f"-c{CONNECTIONS}"]
        done = subprocess.run(
            [*command, f"-d{SECONDS}s", "-s", str(lua), url], capture_output=True, text=True, timeout=60, check=True
        )
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"not every request was answered: {done.stdout}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    if rate is None or p99 is None:
        raise RuntimeError(f"wrk said what was not expected: {done.stdout}")
    return float(rate[1]), float(p99[1]) * _UNIT_MS[p99[2]]


class _Nginx:
    """nginx with one worker process on one core, answering from its configuration."""

    def __init__(self, body: str, core: int) -> None:
        found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if found is None:
            raise Skipped("no nginx here: apt-get install nginx-light")
        self._program = found
        self._body = body.replace("\n", "\\n")
        self._core = core
        self._temporary = tempfile.TemporaryDirectory(prefix="sched-bench-nginx-", ignore_cleanup_errors=True)

    def __enter__(self) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        directory = Path(self._temporary.name)
        configuration = directory / "nginx.conf"
        configuration.write_text(f"""
daemon off; master_process off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{ listen 127.0.0.1:{port};
    location /v1/jobs/ {{ default_type text/plain; return 200 "{self._body}"; }} }}
}}
""")
        self._process = subprocess.Popen(
            ["taskset", "-c", str(self._core), self._program, "-c", str(configuration), "-p", str(directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__()
                    raise Skipped("nginx does not start here") from None
                time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        kill_all_that_mention(self._temporary.name)
        self._temporary.cleanup()
