"""Overselling of nodes: which of them may be shared, how busy their slots are, and which GPUs a sharer gets.

A thread of its own reads figures at intervals, so that no observation waits for them. Where nothing is oversold,
nothing is read.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from scheduler.clusters.kubernetes.api.connection import Connection
from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.oversell.cpu_usage import cpu_loads, cpus_used
from scheduler.clusters.kubernetes.oversell.exporters import Exporters
from scheduler.clusters.kubernetes.oversell.gpu_readings import GpuReadings
from scheduler.clusters.kubernetes.oversell.slot_gpus import gpus_by_slot, slot_loads
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import Clock, StartWorker
from scheduler.engine.timing.repeating import Repeating
from scheduler.errors import ClusterError
from scheduler.model.ids import NodeName
from scheduler.model.observation import NodeObservation, SlotLoad

Loads = Mapping[NodeName, tuple[SlotLoad, ...]]


class Overselling:
    """Reads from when it is made until `close`."""

    def __init__(
        self,
        settings: KubernetesSettings,
        connection: Connection,
        cache: ClusterCache,
        exporters: Exporters,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called from a thread whenever the set of nodes that may be shared changes."""
        self._settings = settings
        self._connection = connection
        self._cache = cache
        self._exporters = exporters
        self._clock = clock
        self._changed = changed
        self._readings = GpuReadings(settings.gpu_exporter_port, clock.monotonic)
        #: Load of each slot, for nodes where it is known.
        self.loads: Loads = {}
        self._repeating = Repeating("slot loads", self._renew, settings.load_seconds)
        if settings.oversell > 1:
            self._repeating.start()

    def troubles(self) -> list[str]:
        """Why figures cannot be read, one line each."""
        return [self._repeating.trouble] if self._repeating.trouble is not None else []

    def close(self) -> None:
        self._readings.close()
        self._repeating.close()

    def gpus_for(self, start: StartWorker) -> tuple[str, ...]:
        """UUIDs of the GPUs of a worker that shares GPUs, one for each of its slots; none for any other worker.

        Raises `ClusterError` while they are not known.
        """
        if not start.shared or not self._settings.has_gpus:
            return ()
        node = self._cache.nodes().get(start.node)
        gpus = self._readings.fresh().get(start.node, ())
        workers = self._workers().get(start.node, [])
        others = self._cache.others_on(start.node)
        fits = node is not None and len(gpus) == node.slots
        known = gpus_by_slot(node, workers, others, gpus) if node is not None and fits else {}
        missing = [slot for slot in start.slot_ids if slot not in known]
        if missing:
            raise ClusterError(f"the exporter of node {start.node} does not tell yet which GPU slot {missing[0]} is")
        return tuple(known[slot].uuid for slot in start.slot_ids)

    def _renew(self) -> None:
        """Read all figures. Raises `ClusterError` at the end if some cannot be read."""
        try:
            self.loads, wrong = self._read_gpus() if self._settings.has_gpus else self._read_cpus()
        except Exception:
            self.loads = {}
            raise
        if wrong:
            (name, why), *more = sorted(wrong.items())
            what = "node" if self._settings.has_gpus else "namespace"
            others = f"; {len(more)} more {what}s with such trouble" if more else ""
            raise ClusterError(f"{what} {name}: {why}{others}")

    def _read_cpus(self) -> tuple[Loads, Mapping[str, str]]:
        """Loads of all nodes, and why they lack the workers of some namespaces."""
        until = self._clock.now() + self._settings.request_seconds
        used = cpus_used(self._connection, self._settings.worker_namespaces, until)
        workers, nodes = self._workers(), self._cache.nodes()
        return {name: cpu_loads(node, workers.get(name, []), used.pods) for name, node in nodes.items()}, used.closed

    def _read_gpus(self) -> tuple[Loads, Mapping[str, str]]:
        """Loads of the nodes whose GPUs are known, which may be shared, and why other nodes may not."""
        nodes = {name: node for name, node in self._cache.nodes().items() if node.slots and node.up}
        addresses = self._exporters.addresses()
        failures = self._readings.read({name: addresses[name] for name in nodes if name in addresses})
        fresh, workers = self._readings.fresh(), self._workers()
        known = {name: gpus for name, gpus in fresh.items() if len(gpus) == nodes[name].slots}
        if self._cache.oversell(known.keys()):
            self._changed()
        loads = {
            name: slot_loads(nodes[name], workers.get(name, []), self._cache.others_on(name), gpus)
            for name, gpus in known.items()
        }
        misfits = {name: self._misfit(node, fresh.get(name)) for name, node in nodes.items() if name not in known}
        return loads, dict[str, str]((*misfits.items(), *failures.items()))

    def _misfit(self, node: NodeObservation, gpus: tuple[object, ...] | None) -> str:
        if gpus is None:
            return f"no pod of {self._settings.gpu_exporter} runs there: its GPUs are not shared"
        return f"its exporter tells of {len(gpus)} GPUs, and it offers {node.slots}: they are not shared"

    def _workers(self) -> dict[NodeName, list[KnownWorker]]:
        """Workers that may run, by node."""
        found: dict[NodeName, list[KnownWorker]] = defaultdict(list)
        for known in self._cache.live_workers():
            found[known.who.node].append(known)
        return found
