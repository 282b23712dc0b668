"""What may have been committed by a tick that failed is shown all the same. No Kubernetes is needed."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.controller import TrainingJobs
from scheduler.daemon.trainingjobs.resource import Document
from scheduler.engine.tick import TickReport
from tests.world import World

KEY: ObjectKey = ("ns", "name")


class Gone:
    """One object, which is found gone whenever it is looked at."""

    def __init__(self) -> None:
        self.looked_at = 0

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        pass

    def close(self) -> None:
        pass

    def get(self, key: ObjectKey) -> None:
        self.looked_at += 1

    def keys(self) -> list[ObjectKey]:
        return [KEY]

    def write_status(self, item: Document, status: Document) -> None:
        raise AssertionError

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        raise AssertionError

    def await_looks(self, count: int) -> None:
        until = time.monotonic() + 10
        while self.looked_at < count and time.monotonic() < until:
            time.sleep(0.01)
        assert self.looked_at == count


@pytest.mark.parametrize("crashed", [False, True])
def test_every_object_is_looked_at_once_a_tick_runs_through_after_one_that_failed(
    tmp_path: Path, crashed: bool
) -> None:
    w, objects = World(tmp_path), Gone()
    settings = KubernetesSettings()
    control = TrainingJobs(objects, w.store, w.clock, settings, lambda _: "", lambda: True, lambda _: None)
    with control.followed():
        control.see(TickReport(at=1.0, leading=True))
        objects.await_looks(1)
        control.see(TickReport(at=2.0, leading=True))
        if crashed:
            control.crashed()
        else:
            control.see(TickReport(at=3.0, leading=True, error="connection lost at COMMIT"))
        control.see(TickReport(at=4.0, leading=True))
        objects.await_looks(2)
    w.close()
