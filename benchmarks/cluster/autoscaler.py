"""What stands for an autoscaler: it scales the service by the requests that its pods have counted.

As a HorizontalPodAutoscaler does, it desires the fewest pods that leave none above its target (documentation of
Kubernetes, "Horizontal Pod Autoscaling"). More come at once, fewer only when that was desired for a while.
"""

import math
import re
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

import httpx
import urllib3
from kubernetes.client.exceptions import ApiException

from benchmarks.cluster.nginx import NAME, PORT, STATUS
from benchmarks.cluster.site import Site

#: Requests per second of one pod, with those of its probe.
TARGET = 22.0
#: Over which requests are counted.
_LOOK_SECONDS = 2.0
_CALM_SECONDS = 4.0
_ASK_SECONDS = 1.0
_END_SECONDS = 30.0
_REQUESTS = re.compile(r"^ *\d+ +\d+ +(\d+) *$", re.MULTILINE)


@dataclass(slots=True)
class Autoscaler:
    """Runs in a thread from entry to exit."""

    site: Site
    most: int
    replicas: int = 1
    _counts: dict[str, int] = field(default_factory=dict)
    _more_needed_at: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Autoscaler":
        self._thread = threading.Thread(target=self._run, name="autoscaler", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=_ASK_SECONDS) as http:
            before = time.monotonic()
            self._count(http)
            while not self._over.wait(_LOOK_SECONDS):
                try:
                    requests, now = self._count(http), time.monotonic()
                    self._scale(desired(requests / (now - before), self.most), now)
                    before = now
                except (ApiException, urllib3.exceptions.HTTPError):
                    continue  # the next look tells more

    def _scale(self, wanted: int, now: float) -> None:
        if wanted >= self.replicas:
            self._more_needed_at = now
        if wanted == self.replicas or (wanted < self.replicas and now < self._more_needed_at + _CALM_SECONDS):
            return
        self.site.apps.patch_namespaced_deployment_scale(NAME, self.site.namespace, {"spec": {"replicas": wanted}})
        self.replicas = wanted

    def _count(self, http: httpx.Client) -> int:
        """Requests of all pods since the last look, but for this question itself."""
        pods = self.site.core.list_namespaced_pod(self.site.namespace, label_selector=f"app={NAME}").items
        counts: dict[str, int] = {}
        for pod in pods:
            if pod.status.phase == "Running" and pod.status.pod_ip:
                count = _counted(http, pod.status.pod_ip)
                if count is not None:
                    counts[pod.metadata.name] = count
        new = sum(max(0, count - self._counts.get(name, 0) - 1) for name, count in counts.items())
        self._counts = self._counts | counts
        return new


def desired(per_second: float, most: int) -> int:
    """The pods that this rate of requests needs."""
    return min(max(math.ceil(per_second / TARGET), 1), most)


def _counted(http: httpx.Client, address: str) -> int | None:
    """Requests that this nginx has taken; None where it does not answer."""
    try:
        found = _REQUESTS.search(http.get(f"http://{address}:{PORT}{STATUS}").text)
    except httpx.HTTPError:
        return None
    return int(found[1]) if found else None
