"""A real Prometheus for tests: `with scraping(tmp_path, port) as prometheus: prometheus.ask_range(...)`."""

import math
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.ports import free_port

RULES = Path(__file__).parent.parent.parent / "grafana" / "prometheus"
SECONDS_MAX = 120.0

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed (Debian: apt-get install prometheus)",
)


def judge(
    directory: Path, series: list[dict[str, str]], tests: list[dict[str, Any]], rules: Sequence[str] = ()
) -> None:
    """Promtool has to find in these series, minute by minute, what the tests expect; `rules` are names of files."""
    document = {
        "rule_files": [str(RULES / name) for name in rules],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    path = directory / "promtool_test.yaml"
    path.write_text(yaml.safe_dump(document))
    run_promtool("test", "rules", str(path))


def run_promtool(*arguments: str) -> None:
    """Promtool has to find nothing wrong."""
    done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """One that runs; `began` is when it began to scrape."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30.0, trust_env=False)
        self.began = time.time()

    def close(self) -> None:
        self._client.close()

    def ready(self) -> bool:
        try:
            return self._client.get("/-/ready").is_success
        except httpx.TransportError:
            return False

    def ask(self, query: str) -> list[Any]:
        """The present answer."""
        return list(self._get("query", query=query)["result"])

    def ask_range(self, query: str) -> list[float]:
        """Every number of the answer, for each second from the beginning until now."""
        found = self._get("query_range", query=query, start=self.began, end=time.time(), step="1")
        return [float(v) for series in found["result"] for _, v in series["values"] if math.isfinite(float(v))]

    def await_answer(self, query: str, seconds: float = SECONDS_MAX) -> list[Any]:
        """The first answer that is not empty."""
        until = time.monotonic() + seconds
        while not (answer := self.ask(query)):
            assert time.monotonic() < until, f"Prometheus has no answer: {query}"
            time.sleep(0.2)
        return answer

    def examples(self, metric: str) -> set[str]:
        """Jobs that examples of the metric name."""
        found = self._get("query_exemplars", query=metric, start=self.began, end=time.time())
        return {example["labels"]["job"] for series in found for example in series["exemplars"]}

    def _get(self, path: str, **parameters: Any) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=parameters)
        assert answer.is_success, f"{parameters['query']}: {answer.text}"
        return answer.json()["data"]


@contextmanager
def scraping(directory: Path, target: str) -> Iterator[Prometheus]:
    """Prometheus with this project's rules and alerts, scraping `host:port` every second."""
    port = free_port()
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES / "rules.yaml"), str(RULES / "alerts.yaml")],
        "scrape_configs": [{"job_name": "scheduler", "static_configs": [{"targets": [target]}]}],
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={directory / 'prometheus.yaml'}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--enable-feature=exemplar-storage",
            ],
            stdout=log,
            stderr=log,
        )
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    try:
        until = time.monotonic() + SECONDS_MAX
        while not prometheus.ready():
            assert process.poll() is None, (directory / "prometheus.log").read_text()
            assert time.monotonic() < until, "Prometheus does not get ready"
            time.sleep(0.1)
        yield prometheus
    finally:
        prometheus.close()
        process.terminate()
        process.wait(SECONDS_MAX)
