"""Figures of GPUs as NVIDIA's exporter tells them: what they say of slots, and what bad ones do."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.oversell.gpu_figures import BYTES_MAX, fetch, gpus_of
from scheduler.clusters.kubernetes.oversell.gpu_readings import GpuReadings
from scheduler.clusters.kubernetes.oversell.slot_gpus import FULL, gpus_by_slot, slot_loads
from scheduler.clusters.kubernetes.pod_status import PodState
from scheduler.clusters.kubernetes.pods import PodKey, WorkerPod
from scheduler.errors import ClusterError
from scheduler.model.foreign import NO_FOREIGN, ForeignUse
from scheduler.model.ids import NodeName, WorkerId, job_of
from scheduler.model.observation import NodeObservation, Phase, SlotLoad
from tests.clusters.exporters import RECORDED, Shown, running_exporters

A, B = NodeName("a"), NodeName("b")
GPUS = gpus_of(RECORDED["a"])
FIRST, FREE, OTHERS, LAST = GPUS
ONE_OTHER = ForeignUse(slots=1)
ANN = frozenset({PodKey("notebooks", "ann-0")})


def node(foreign: ForeignUse = ONE_OTHER) -> NodeObservation:
    return NodeObservation(A, "host-a", 4, has_gpus=True, foreign=foreign)


def worker(name: str, *slot_ids: int, gpus: tuple[str, ...] = ()) -> KnownWorker:
    """One that shares where it was given GPUs."""
    number = WorkerId(name)
    who = WorkerPod(number, job_of(number), "trainings", A, slot_ids, 0.0, 0, shared=bool(gpus), gpus=gpus)
    return KnownWorker(who, PodState(Phase.RUNNING), 0.0, name=f"sched-{name}", uid=name)


# what it tells


def test_an_exporter_tells_whose_each_gpu_is_and_how_busy() -> None:
    owner = PodKey("trainings", "sched-7-1")
    assert [gpu.pod for gpu in GPUS] == [owner, None, PodKey("notebooks", "ann-0"), owner]
    assert [gpu.load.utilization for gpu in GPUS] == [0.97, 0.0, 0.12, 1.0]
    assert [round(gpu.load.memory or 0, 2) for gpu in GPUS] == [0.75, 0.0, 0.01, 0.5]


def test_what_a_gpu_cannot_tell_is_not_known() -> None:
    first, second = gpus_of(RECORDED["b"])
    assert (first.pod, second.pod) == (None, None)
    assert first.load == SlotLoad(4 / 32768, 0.0)
    assert second.load == SlotLoad(None, 0.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "101"])
def test_a_number_that_cannot_be_is_not_known(value: str) -> None:
    text = RECORDED["a"].replace("} 97\n", f"}} {value}\n")
    assert gpus_of(text)[0].load.utilization is None


@pytest.mark.parametrize(
    "text",
    [
        "<html>not found</html>",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="all"} 1\n',
        'DCGM_FI_DEV_GPU_UTIL{gpu="x",UUID="GPU-1"} 1\n',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 1\n',
    ],
)
def test_what_no_exporter_says_and_gpus_that_are_divided_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"UUID|MIG|nvalid|literal"):
        gpus_of(text)


# which GPU a slot is


def test_the_gpus_of_a_workers_pod_are_its_slots_and_free_ones_those_of_free_slots() -> None:
    known = gpus_by_slot(node(), [worker("7-1", 1, 3)], ANN, GPUS)
    assert known == {1: FIRST, 3: LAST, 0: FREE}  # the other free slot is held by a pod of others


def test_who_shares_holds_no_gpu_of_its_own() -> None:
    sharing = worker("8-1", 1, gpus=(FIRST.uuid,))
    assert gpus_by_slot(node(), [worker("7-1", 1, 3), sharing], ANN, GPUS) == {1: FIRST, 3: LAST, 0: FREE}


def test_gpus_are_not_known_until_the_exporter_shows_their_pod() -> None:
    assert gpus_by_slot(node(), [worker("7-1", 0, 1), worker("9-1", 2)], ANN, GPUS) == {0: FIRST, 1: LAST}
    assert gpus_by_slot(node(), [worker("7-1", 0, 1, 2)], ANN, GPUS) == {}  # it shows two of three


def test_no_gpu_counts_as_free_while_a_pod_of_others_is_not_shown_with_its_own() -> None:
    others = {*ANN, PodKey("notebooks", "bob-0")}
    assert gpus_by_slot(node(ForeignUse(slots=2)), [worker("7-1", 0, 1)], others, GPUS) == {0: FIRST, 1: LAST}


# how busy slots are


def test_a_slot_is_as_busy_as_its_gpu_and_one_that_others_hold_is_full() -> None:
    loads = slot_loads(node(), [worker("7-1", 0, 1)], ANN, GPUS)
    assert loads == (FIRST.load, LAST.load, FREE.load, FULL)


def test_a_slot_is_as_busy_as_the_busier_one_of_its_gpu_and_of_that_which_its_sharer_has() -> None:
    sharing = worker("8-1", 2, gpus=(LAST.uuid,))
    assert slot_loads(node(), [worker("7-1", 0, 1), sharing], ANN, GPUS)[2] == LAST.load


def test_whose_gpu_others_have_come_to_hold_has_a_full_slot() -> None:
    sharing = worker("8-1", 2, gpus=(OTHERS.uuid,))
    assert slot_loads(node(), [worker("7-1", 0, 1), sharing], ANN, GPUS)[2].memory == 1.0


def test_whose_owner_has_just_ended_has_no_full_slot_and_nobody_gets_that_gpu_until_it_is_shown_as_free() -> None:
    sharing = worker("8-1", 0, gpus=(FIRST.uuid,))
    assert slot_loads(node(), [sharing], ANN, GPUS)[0].memory == FIRST.load.memory
    assert gpus_by_slot(node(), [sharing], ANN, GPUS) == {0: FREE}


def test_others_hold_the_slots_that_nobody_shares_where_nobody_has_them_for_his_own() -> None:
    sharing = worker("8-1", 3, gpus=(FREE.uuid,))
    assert slot_loads(node(), [worker("7-1", 0, 1), sharing], ANN, GPUS)[2:] == (FULL, FREE.load)


def test_slots_that_the_node_has_not_any_more_harm_nobody() -> None:
    assert len(slot_loads(node(NO_FOREIGN), [worker("7-1", 0, 9), worker("8-1", 9, gpus=("GPU-1",))], ANN, GPUS)) == 4


# how it is asked


@contextmanager
def talking(say: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with its first connection; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                say(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        thread.join()


def endless(piece: bytes) -> Callable[[socket.socket], None]:
    def say(connection: socket.socket) -> None:
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(piece)
        except OSError:
            return

    return say


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:
        yield client


def test_an_exporter_that_says_nothing_is_given_up(client: httpx.Client) -> None:
    heard = threading.Event()
    with talking(lambda _: (heard.wait(60), None)[1]) as url:
        with pytest.raises(httpx.TimeoutException):
            fetch(client, url, 0.1, time.monotonic)
        heard.set()


def test_an_exporter_that_does_not_end_is_given_up(client: httpx.Client) -> None:
    times = iter([0.0, 1.0, 6.0])
    with talking(endless(b"#\n")) as url, pytest.raises(ClusterError, match="takes more than 5 s"):
        fetch(client, url, 5.0, lambda: next(times))


def test_an_exporter_that_says_too_much_is_given_up(client: httpx.Client) -> None:
    with talking(endless(b"#" * 65536)) as url, pytest.raises(ClusterError, match=f"more than {BYTES_MAX} bytes"):
        fetch(client, url, 60.0, lambda: 0.0)


def test_the_trouble_of_one_node_is_its_own_and_old_figures_count_for_nothing() -> None:
    now = [0.0]
    with running_exporters() as exporters:
        readings = GpuReadings(exporters.port, lambda: now[0])
        addresses = {A: "127.0.0.1", B: "127.0.0.2"}
        exporters.show("127.0.0.1", "x", Shown("GPU-1"))
        exporters.texts["127.0.0.2"] = b"\xff garbage"
        failures = readings.read(addresses)
        assert list(failures) == [B]
        assert failures[B].startswith(f"http://127.0.0.2:{exporters.port}/metrics: ")
        exporters.show("127.0.0.2", "x", Shown("GPU-2"))
        del exporters.texts["127.0.0.1"]
        assert readings.read(addresses)[A].endswith("it responds with status 404")
        assert {name: gpus[0].uuid for name, gpus in readings.fresh().items()} == {A: "GPU-1", B: "GPU-2"}
        now[0] = 1000.0
        assert readings.fresh() == {}
        assert readings.read({}) == {}
        readings.close()
