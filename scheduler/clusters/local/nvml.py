"""Readings of this machine's GPUs from NVML, the library of NVIDIA's driver.

One session, opened at the first reading and again after the library failed: a reloaded driver does not answer earlier
sessions. While it is open the driver cannot be unloaded.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from ctypes import c_void_p, cast
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pynvml

from scheduler import bounds
from scheduler.model.observation import SlotLoad

T = TypeVar("T")

#: Events taken at a time; the rest is left for the next time.
EVENTS_MAX = 256
#: Errors of any call after which the library has to be opened again.
_OF_THE_LIBRARY = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
#: Errors of a library that is too old for events.
_TOO_OLD = frozenset({pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED})
#: Errors of an unusable GPU.
_UNFIT = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU; a desktop does not. `bytes_held` 0: none, or unknown."""

    pid: int
    bytes_held: int


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of one GPU."""

    name: str
    load: SlotLoad = SlotLoad()
    #: 0: unknown.
    memory_bytes: int = 0
    processes: tuple[GpuProcess, ...] = ()
    #: Why it is unfit for use, in a line for people; empty if it is fit.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """All GPUs at one moment, by UUID, in the order of their PCI addresses."""

    gpus: Mapping[str, GpuReading] = field(default_factory=dict)
    #: Error of the library; empty if it works.
    trouble: str = ""
    #: Whether the library is installed.
    installed: bool = True
    #: Whether the error is that no driver is loaded.
    unloaded: bool = False
    #: GPUs that cannot be opened, a line for people each.
    unopened: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Xid:
    """A critical error of a GPU that the driver reported, by NVIDIA's number."""

    uuid: str
    number: int


class Nvml:
    """A session with the library. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._open = False
        self._events: Any = None
        #: Whether the library supports events, as far as is known.
        self._tells = True
        #: GPUs with registered events, by the address of their handle.
        self._watched: dict[int | None, str] = {}

    def read(self) -> Reading:
        """Read all GPUs. Raises nothing: a failure is part of the reading."""
        try:
            self._ensure_open()
            return self._read_all(int(pynvml.nvmlDeviceGetCount()))
        except pynvml.NVMLError as error:
            self.close()
            return Reading(
                trouble=_told(error),
                installed=error.value != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
                unloaded=error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
            )

    def wait(self, seconds: float) -> tuple[Xid, ...]:
        """Errors that the driver reported since the last call; if there are none, wait up to `seconds` for one."""
        found: list[Xid] = []
        milliseconds = round(seconds * 1000)
        try:
            while self._events is not None and len(found) < EVENTS_MAX:
                event = pynvml.nvmlEventSetWait_v2(self._events, milliseconds)
                uuid = self._watched.get(_address(event.device))
                if uuid is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                    found.append(Xid(uuid, int(event.eventData)))
                milliseconds = 0
        except pynvml.NVMLError as error:
            if error.value in _TOO_OLD:
                self._tells, self._events = False, None
            elif error.value != pynvml.NVML_ERROR_TIMEOUT:
                self.close()
        return tuple(found)

    def close(self) -> None:
        """Release the driver."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)
        if self._open:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        self._open, self._events, self._watched = False, None, {}

    def _ensure_open(self) -> None:
        if not self._open:
            pynvml.nvmlInit()
            self._open = True
            self._events = _told_by(pynvml.nvmlEventSetCreate, None) if self._tells else None

    def _read_all(self, count: int) -> Reading:
        gpus: dict[str, GpuReading] = {}
        unopened: list[str] = []
        failure: pynvml.NVMLError | None = None
        for index in range(min(count, int(bounds.SLOTS.high))):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
            except UnicodeDecodeError:
                unopened.append(f"GPU {index}: its name is no text")
            except pynvml.NVMLError as error:
                if error.value in _OF_THE_LIBRARY:
                    raise
                failure = error
                unopened.append(f"GPU {index}: {_told(error)}")
            else:
                gpus[uuid] = _read_gpu(handle, name)
                self._watch(handle, uuid)
        if failure is not None and not gpus:
            raise failure  # either the trouble is not that of one GPU, or opening the library again does no harm
        self._watched = {address: uuid for address, uuid in self._watched.items() if uuid in gpus}
        return Reading(gpus, unopened=tuple(unopened))

    def _watch(self, handle: Any, uuid: str) -> None:
        """Register for a GPU's errors, once; a GPU without support for that is not asked again."""
        if self._events is None or uuid in self._watched.values():
            return
        with suppress(pynvml.NVMLError):
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        self._watched[_address(handle)] = uuid


def _read_gpu(handle: Any, name: str) -> GpuReading:
    """Read one GPU; an old GPU, or one that a hypervisor shares, does not provide all values."""
    faults: list[str] = []

    def read(get: Callable[[], T], default: T) -> T:
        try:
            return get()
        except pynvml.NVMLError as error:
            if error.value in _OF_THE_LIBRARY:
                raise
            if error.value in _UNFIT and _told(error) not in faults:
                faults.append(_told(error))
            return default

    memory = read(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle), None)
    rates = read(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle), None)
    processes: list[Any] = read(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle), [])
    uncorrectable, volatile = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    errors = read(lambda: pynvml.nvmlDeviceGetTotalEccErrors(handle, uncorrectable, volatile), 0)
    if errors:
        plural = "" if errors == 1 else "s"
        faults.append(f"{errors} uncorrectable ECC error{plural} since the driver was loaded")
    *_, failed = read(lambda: pynvml.nvmlDeviceGetRemappedRows(handle), (0, 0, 0, 0))
    if failed:
        faults.append("rows of its memory could not be remapped")
    if read(lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle), 0):
        faults.append("pages of its memory are to be retired when the driver is loaded again")
    return GpuReading(
        name,
        SlotLoad(_share(memory.used, memory.total) if memory is not None else None, _share_of(rates)),
        int(memory.total) if memory is not None else 0,
        tuple(GpuProcess(int(each.pid), int(each.usedGpuMemory or 0)) for each in processes),
        "; ".join(faults),
    )


def _share(part: int, whole: int) -> float | None:
    return min(part / whole, 1.0) if whole else None


def _share_of(rates: Any) -> float | None:
    return None if rates is None else _share(rates.gpu, 100)


def _told_by(get: Callable[[], T], default: T) -> T:
    """The library's answer; the default if it does not support the call."""
    try:
        return get()
    except pynvml.NVMLError as error:
        if error.value in _OF_THE_LIBRARY:
            raise
        return default


def _told(error: pynvml.NVMLError) -> str:
    return str(error).rstrip(".")


def _address(handle: Any) -> int | None:
    return cast(handle, c_void_p).value
