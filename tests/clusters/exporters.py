"""Exporters of GPU figures for tests: a real HTTP server that says what NVIDIA's DCGM exporter would."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

#: Written down in the format of release 4.x: node `a` has GPUs of several owners, node `b` none that tells its memory.
RECORDED = {
    path.stem.removeprefix("node-"): path.read_text() for path in (Path(__file__).parent / "dcgm").glob("*.txt")
}
MIB = 80_000


@dataclass(frozen=True)
class Shown:
    """A GPU, the pod that it is given to, and how busy it is."""

    uuid: str
    pod: str = ""
    used: float = 0.0
    utilization: float = 0.0


class Exporters:
    """One on each address of loopback, all on one port. What an address is not given is not found."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port: int = server.server_address[1]
        self.texts: dict[str, bytes] = {}

    def show(self, address: str, namespace: str, *gpus: Shown) -> None:
        lines: dict[str, list[str]] = {}
        for number, gpu in enumerate(gpus):
            labels = f'gpu="{number}",UUID="{gpu.uuid}",device="nvidia{number}",modelName="H100",Hostname="{address}"'
            if gpu.pod:
                labels += f',container="worker",namespace="{namespace}",pod="{gpu.pod}"'
            for name, value in _values(gpu).items():
                lines.setdefault(name, [f"# TYPE {name} gauge"]).append(f"{name}{{{labels}}} {value:g}")
        self.texts[address] = "".join(f"{line}\n" for family in lines.values() for line in family).encode()


def _values(gpu: Shown) -> Mapping[str, float]:
    used = gpu.used * MIB
    return {
        "DCGM_FI_DEV_GPU_UTIL": gpu.utilization * 100,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": MIB - used,
    }


@contextmanager
def running_exporters() -> Iterator[Exporters]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = exporters.texts.get(self.connection.getsockname()[0])
            self.send_response(404 if text is None or self.path != "/metrics" else 200)
            self.send_header("Content-Length", str(len(text or b"")))
            self.end_headers()
            self.wfile.write(text or b"")

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    exporters = Exporters(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield exporters
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
