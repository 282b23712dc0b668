"""`make dashboards`: Prometheus, and Grafana where it is installed, over a running daemon. Ctrl-C ends both.

What they keep lies below ~/.sched-dashboards (or --directory), so that the history is there again next time.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
#: Where Debian's and Grafana's own packages put what the server needs.
GRAFANA_HOMES = (Path("/usr/share/grafana"), Path("/usr/local/share/grafana"), Path("/opt/grafana"))


class Trouble(Exception):
    """One line for people."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grafana.show", description=__doc__.partition("\n")[0])
    parser.add_argument("--url", help="the daemon (default: SCHED_URL, or what `sched serve` announced)")
    parser.add_argument("--state-dir", type=Path, default=Path("~/.sched"), help="of the daemon (default: ~/.sched)")
    parser.add_argument("--directory", type=Path, default=Path("~/.sched-dashboards"), help="for what is kept")
    parser.add_argument("--prometheus-port", type=int, default=9090)
    parser.add_argument("--grafana-port", type=int, default=3000)
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        show(options)
    except Trouble as trouble:
        print(f"dashboards: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def show(options: argparse.Namespace) -> None:
    """Start them, say where they are, and wait until one ends. Raises `Trouble`, `KeyboardInterrupt`."""
    if shutil.which("prometheus") is None:
        raise Trouble("Prometheus is not installed: apt-get install prometheus")
    url, token = find_daemon(options.url, options.state_dir.expanduser())
    directory = options.directory.expanduser().absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    prometheus = f"http://127.0.0.1:{options.prometheus_port}"
    with started(prometheus_command(directory, url, token, options.prometheus_port), {}, directory) as first:
        await_answer(f"{prometheus}/-/ready", first, directory)
        print(f"Prometheus: {prometheus}/graph, alerts: {prometheus}/alerts (scrapes {url})", flush=True)
        home = next((home for home in GRAFANA_HOMES if home.is_dir()), None)
        if shutil.which("grafana-server") is None or home is None:
            print("Grafana is not installed: import grafana/dashboards/*.json into one that reads this Prometheus.")
            first.wait()
            return
        environment = grafana_environment(directory, prometheus, options.grafana_port)
        with started(["grafana-server", "--homepath", str(home)], environment, directory) as second:
            grafana = f"http://127.0.0.1:{options.grafana_port}"
            await_answer(f"{grafana}/api/health", second, directory)
            print(f"Grafana: {grafana}/d/sched-utilization", flush=True)
            follow = [sys.executable, "-m", "grafana.annotate", "--url", url, "--grafana", grafana]
            with started(follow, {"SCHED_TOKEN": token} if token else {}, directory, "annotate"):
                second.wait()


def find_daemon(url: str | None, state_dir: Path) -> tuple[str, str | None]:
    """Where it is, and the token that it wants. Raises `Trouble` if it does not answer."""
    token = os.environ.get("SCHED_TOKEN")
    url = url or os.environ.get("SCHED_URL")
    if url is None:
        try:
            announced: dict[str, Any] = json.loads((state_dir / "daemon.json").read_text())
        except (OSError, ValueError):
            raise Trouble(f"no daemon is announced in {state_dir}: start `sched serve`, or give --url") from None
        url = str(announced["url"])
    token_path = state_dir / "token"
    if token is None and token_path.is_file():
        token = token_path.read_text().strip()
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5):
            return url, token
    except (OSError, ValueError) as error:
        raise Trouble(f"no daemon answers at {url}: {error}") from None


def prometheus_command(directory: Path, url: str, token: str | None, port: int) -> list[str]:
    """Its command line; writes its configuration."""
    scheme, _, target = url.partition("://")
    scrape: dict[str, Any] = {
        "job_name": "scheduler",
        "scheme": scheme,
        "static_configs": [{"targets": [target.rstrip("/")]}],
    }
    if token is not None:
        path = directory / "token"
        path.touch(mode=0o600)
        path.write_text(token)
        scrape["authorization"] = {"credentials_file": str(path)}
    configuration = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(HERE / "prometheus" / name) for name in ("rules.yaml", "alerts.yaml")],
        "scrape_configs": [scrape],
    }
    # JSON is YAML.
    (directory / "prometheus.yaml").write_text(json.dumps(configuration, indent=1))
    return [
        "prometheus",
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
    ]


def grafana_environment(directory: Path, prometheus: str, port: int) -> dict[str, str]:
    """Its settings; writes what it is provisioned with."""
    provisioning = directory / "provisioning"
    boards = {"name": "scheduler", "type": "file", "options": {"path": str(HERE / "dashboards")}}
    contents = {
        "datasources": {"datasources": [datasource(prometheus)]},
        "dashboards": {"providers": [boards]},
    }
    for name, content in contents.items():
        (provisioning / name).mkdir(parents=True, exist_ok=True)
        (provisioning / name / "scheduler.yaml").write_text(json.dumps({"apiVersion": 1, **content}, indent=1))
    return {
        "GF_PATHS_DATA": str(directory / "grafana"),
        "GF_PATHS_LOGS": str(directory / "grafana"),
        "GF_PATHS_PROVISIONING": str(provisioning),
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Admin",
        "GF_AUTH_DISABLE_LOGIN_FORM": "true",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
    }


def datasource(prometheus: str) -> dict[str, Any]:
    """Prometheus, as Grafana is told of it."""
    return {
        "name": "Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus,
        "isDefault": True,
        "jsonData": {"timeInterval": "5s"},
    }


@contextmanager
def started(
    command: list[str], environment: dict[str, str], directory: Path, name: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """The process inside the block; ended after it. `name`: of its log, else that of the program."""
    with (directory / f"{name or command[0]}.log").open("ab") as log:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_answer(url: str, process: subprocess.Popen[bytes], directory: Path) -> None:
    """Wait until it is ready. Raises `Trouble`."""
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Trouble(f"what should answer at {url} ended at once; its log is in {directory}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise Trouble(f"{url} does not answer; its log is in {directory}")


if __name__ == "__main__":
    sys.exit(main())
