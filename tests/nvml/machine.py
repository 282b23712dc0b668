"""A machine with GPUs, as NVML tells of it: `machine.gpus = [...]`, `machine.xid(...)`, `machine.unload()`.

The library is found as NVIDIA's own is, by LD_LIBRARY_PATH, which the loader reads at the start of a process. So what
reads GPUs runs in a process of its own: a daemon, or `machine.process()`.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
T = TypeVar("T")

SOURCE = Path(__file__).with_name("fake_nvml.c")
GIB = 1 << 30

#: Error codes of NVML.
NOT_SUPPORTED, DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, UNKNOWN = 3, 9, 15, 16, 18, 999


@dataclass(frozen=True)
class Process:
    """A process that computes on a GPU. `bytes_held` None: the driver does not tell."""

    pid: int
    bytes_held: int | None = 4 * GIB


@dataclass(frozen=True)
class FakeGpu:
    """One GPU. What is None the GPU does not support; errors are codes of NVML."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int | None = 80 * GIB
    used: int = 0
    utilization: int | None = 0
    ecc: int | None = 0
    rows_pending: int = 0
    rows_failed: int | None = 0
    retired_pending: int | None = None
    processes: tuple[Process, ...] = ()
    #: It is counted, and cannot be opened.
    error: int = 0
    #: It can be opened, and does not answer.
    broken: int = 0

    def lines(self) -> list[str]:
        """As the library reads it."""
        told = [f"gpu {self.uuid} {self.error} {self.name}"]
        if self.memory is not None:
            told.append(f"memory {self.memory} {self.used}")
        if self.utilization is not None:
            told.append(f"utilization {self.utilization}")
        if self.ecc is not None:
            told.append(f"ecc {self.ecc}")
        if self.rows_failed is not None:
            told.append(f"rows {self.rows_pending} {self.rows_failed}")
        if self.retired_pending is not None:
            told.append(f"retired {self.retired_pending}")
        for process in self.processes:
            bytes_held = -1 if process.bytes_held is None else process.bytes_held
            told.append(f"process {process.pid} {bytes_held}")
        if self.broken:
            told.append(f"broken {self.broken}")
        return told


class FakeMachine:
    """Its driver is loaded, and it has the GPUs that it is made with."""

    def __init__(self, library: Path, directory: Path, *gpus: FakeGpu) -> None:
        self._library = library
        self._state = directory / "machine"
        self._gpus = list(gpus)
        self._errors = (0, 0, 0)
        self._load = 1
        (directory / "machine.xids").touch()
        self._write()

    @property
    def gpus(self) -> tuple[FakeGpu, ...]:
        return tuple(self._gpus)

    def has(self, *gpus: FakeGpu) -> None:
        """From now on it has these."""
        self._gpus = list(gpus)
        self._write()

    def change(self, uuid: str, **values: object) -> None:
        """One of its GPUs is another way."""
        self.has(*(replace(gpu, **values) if gpu.uuid == uuid else gpu for gpu in self._gpus))  # type: ignore[arg-type]

    def fail(self, *, init: int = 0, call: int = 0, events: int = 0) -> None:
        """The library fails at its initialization, at every other call, or at waits for events; else it works again."""
        self._errors = (init, call, events)
        self._write()

    def unload(self) -> None:
        """The driver is unloaded."""
        self.fail(init=DRIVER_NOT_LOADED, call=UNKNOWN)

    def load(self) -> None:
        """The driver is loaded (again): whoever had initialized the library has to do so again."""
        self._load += 1
        self.fail()

    def xid(self, uuid: str, *numbers: int) -> None:
        """The driver tells of these errors."""
        with Path(f"{self._state}.xids").open("a") as file:
            file.writelines(f"{uuid} {number}\n" for number in numbers)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs that is to run on this machine."""
        return {"LD_LIBRARY_PATH": str(self._library.parent), "FAKE_NVML_STATE": str(self._state)}

    @contextmanager
    def process(self, **environment: str) -> Iterator["MachineProcess"]:
        """A process on this machine that calls functions for the test. `environment`: more variables of it."""
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {**self.environment, **environment}.items():
                    patch.setenv(name, value)
                pool.submit(os.getpid).result()  # it is started now
            yield MachineProcess(pool)

    def _write(self) -> None:
        init, call, events = self._errors
        lines = [f"library {init} {call} {self._load}", f"events {events}"]
        lines += [line for gpu in self._gpus for line in gpu.lines()]
        written = self._state.with_suffix(".new")
        written.write_text("\n".join(lines) + "\n")
        written.rename(self._state)


class MachineProcess:
    """Calls functions of modules with values that can be pickled; what they keep they keep in their module."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function gives; it raises what the function raises."""
        return self._pool.submit(function, *args, **kwargs).result()


def why_no_library() -> str | None:
    """Why the library cannot be built here; None: it can."""
    return None if shutil.which("gcc") else "no gcc here, which packages.debian lists: `make apt`"


def build_library(directory: Path) -> Path:
    """The library by the name that NVIDIA's has, in this directory."""
    library = directory / "libnvidia-ml.so.1"
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(SOURCE)], check=True)
    return library
