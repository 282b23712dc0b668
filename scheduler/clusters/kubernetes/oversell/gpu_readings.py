"""The newest figures of the GPUs of each node: its exporter is asked by HTTP, each within bounds."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from scheduler.clusters.kubernetes.api.errors import line
from scheduler.clusters.kubernetes.oversell.gpu_figures import Gpu, fetch, gpus_of
from scheduler.model.ids import NodeName

if TYPE_CHECKING:
    import httpx

#: In all but a few cases an exporter answers within some milliseconds.
_SECONDS_MAX = 5.0
_AT_A_TIME = 8
#: Asked in one round; of more nodes, those that were asked longest ago.
_NODES_MAX = 200
#: Older figures count for nothing: by default an exporter renews its own every 30 s.
_AGE_SECONDS_MAX = 120.0


class _Reading(NamedTuple):
    gpus: tuple[Gpu, ...]
    #: Monotonic seconds.
    at: float


class GpuReadings:
    """By node. One thread reads, others look."""

    def __init__(self, port: int, monotonic: Callable[[], float]) -> None:
        self._port = port
        self._monotonic = monotonic
        self._readings: dict[NodeName, _Reading] = {}
        #: When each node was asked last, and why that failed where it did.
        self._asked: dict[NodeName, float] = {}
        self._failures: dict[NodeName, str] = {}
        self._client: httpx.Client | None = None

    def read(self, addresses: Mapping[NodeName, str]) -> Mapping[NodeName, str]:
        """Ask the exporters at these addresses; why some have told nothing lately."""
        for known in (self._readings, self._asked, self._failures):
            for name in known.keys() - addresses.keys():
                del known[name]
        due = sorted(addresses, key=lambda name: (self._asked.get(name, float("-inf")), name))[:_NODES_MAX]
        client = self._opened()
        with ThreadPoolExecutor(_AT_A_TIME, "gpu-figures") as hands:
            list(hands.map(lambda name: self._ask(client, name, addresses[name]), due))
        return dict(self._failures)

    def fresh(self) -> dict[NodeName, tuple[Gpu, ...]]:
        """GPUs of those nodes that have told of them lately."""
        since = self._monotonic() - _AGE_SECONDS_MAX
        return {name: reading.gpus for name, reading in self._readings.copy().items() if reading.at >= since}

    def close(self) -> None:
        """Nobody is asked any longer."""
        if self._client is not None:
            self._client.close()

    def _opened(self) -> "httpx.Client":
        import httpx  # takes a while, and few daemons need it

        if self._client is None:
            # Neither proxies nor passwords of the daemon's environment.
            self._client = httpx.Client(trust_env=False)
        return self._client

    def _ask(self, client: "httpx.Client", name: NodeName, address: str) -> None:
        """What goes wrong is that node's failure alone."""
        self._asked[name] = self._monotonic()
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{self._port}/metrics"
        try:
            gpus = gpus_of(fetch(client, url, _SECONDS_MAX, self._monotonic))
        except Exception as error:
            self._failures[name] = f"{url}: {line(str(error)) or type(error).__name__}"
        else:
            self._failures.pop(name, None)
            self._readings[name] = _Reading(gpus, self._monotonic())
