"""The newest figures of the GPUs of each node, read from the node's exporter over HTTP."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from scheduler.clusters.kubernetes.api.errors import line
from scheduler.clusters.kubernetes.oversell.gpu_figures import Gpu, fetch, gpus_of
from scheduler.model.ids import NodeName

if TYPE_CHECKING:
    import httpx

#: Time limit of a request; an exporter normally answers within milliseconds.
_SECONDS_MAX = 5.0
_AT_A_TIME = 8
#: Nodes asked in one round; of more, those that were asked longest ago.
_NODES_MAX = 200
#: Older figures count for nothing: by default an exporter renews its own every 30 s.
_AGE_SECONDS_MAX = 120.0


class _Reading(NamedTuple):
    gpus: tuple[Gpu, ...]
    #: Monotonic seconds.
    at: float


class GpuReadings:
    """Readings by node. One thread reads exporters, other threads take the figures."""

    def __init__(self, port: int, monotonic: Callable[[], float]) -> None:
        self._port = port
        self._monotonic = monotonic
        self._readings: dict[NodeName, _Reading] = {}
        #: When each node was asked last; then the errors of those that failed.
        self._asked: dict[NodeName, float] = {}
        self._failures: dict[NodeName, str] = {}
        self._client: httpx.Client | None = None

    def read(self, addresses: Mapping[NodeName, str]) -> Mapping[NodeName, str]:
        """Ask the exporters at these addresses; return the errors of nodes without recent figures."""
        for known in (self._readings, self._asked, self._failures):
            for name in known.keys() - addresses.keys():
                del known[name]
        due = sorted(addresses, key=lambda name: (self._asked.get(name, float("-inf")), name))[:_NODES_MAX]
        client = self._opened()
        with ThreadPoolExecutor(_AT_A_TIME, "gpu-figures") as hands:
            list(hands.map(lambda name: self._ask(client, name, addresses[name]), due))
        return dict(self._failures)

    def fresh(self) -> dict[NodeName, tuple[Gpu, ...]]:
        """GPUs of the nodes with recent figures."""
        since = self._monotonic() - _AGE_SECONDS_MAX
        return {name: reading.gpus for name, reading in self._readings.copy().items() if reading.at >= since}

    def close(self) -> None:
        """Stop asking."""
        if self._client is not None:
            self._client.close()

    def _opened(self) -> "httpx.Client":
        import httpx  # takes a while, and few daemons need it

        if self._client is None:
            # Neither proxies nor passwords of the daemon's environment.
            self._client = httpx.Client(trust_env=False)
        return self._client

    def _ask(self, client: "httpx.Client", name: NodeName, address: str) -> None:
        """Ask one exporter; an error counts for its node alone."""
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
