"""A torch process group that can be formed, broken and formed again within one process. Imports torch."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed import distributed_c10d

from scheduler.elastic.errors import GroupBroken, Superseded
from scheduler.elastic.group import cuda, old_groups
from scheduler.elastic.group.rendezvous_store import CONNECT_SECONDS, Missing, meet
from scheduler.elastic.group.signed_store import SignedStore
from scheduler.elastic.group.sockets import Connections
from scheduler.elastic.membership.membership import Membership

#: How often a rank that waits in a collective looks whether its group still stands.
_LOOK = timedelta(seconds=0.2)


class Group:
    """One generation's process group; it is torch's default group while it lives.

    Backends: gloo for CPU tensors; for CUDA tensors NCCL, or gloo where ranks share a GPU.
    """

    def __init__(
        self,
        membership: Membership,
        rank: int,
        store: Store,
        timeout_seconds: float,
        connections: Connections,
    ) -> None:
        self.membership = membership
        self.rank = rank
        self.size = membership.size
        self._store = store
        self._connections = connections
        self._broken = False
        self._lock = threading.Lock()
        self._guarded: set[torch.futures.Future[Any]] = set()
        # Those of earlier generations that the script has let go of by now.
        old_groups.release()
        # The count is part of the keys under which members look for each other; a start that failed leaves it raised.
        distributed_c10d._world.group_count = 0
        choice = cuda.choose(store, rank, self.size)
        if choice.backend == cuda.NCCL:
            cuda.apply_settings()
        dist.init_process_group(
            f"cpu:gloo,cuda:{choice.backend}" if choice.backend is not None else "cpu:gloo",
            store=store,
            rank=rank,
            world_size=self.size,
            timeout=timedelta(seconds=CONNECT_SECONDS),
        )
        connections.seal()
        self._nccl = cuda.NcclGroup() if choice.backend == cuda.NCCL else None
        if self._nccl is not None and choice.in_use and self.size > 1:
            with connections.opening():
                self._nccl.connect()
        distributed_c10d._set_pg_timeout(timedelta(seconds=timeout_seconds))

    @property
    def generation(self) -> int:
        """The generation that this group is of."""
        return self.membership.generation

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Sums the tensor over all ranks, in place; a collective."""
        self.wait(dist.all_reduce(tensor, async_op=True), tensor)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Gives the source's content to all, in place; a collective."""
        self.wait(dist.broadcast(tensor, source, async_op=True), tensor)

    def wait(self, work: dist.Work | None, tensor: torch.Tensor) -> None:
        """Waits for a collective on this tensor.

        gloo forgets a send that fails while it is written: whoever waits for it learns nothing before the group's
        timeout. So this looks now and then whether the group still stands.
        """
        if work is None:
            return
        if self._is_carried_by_nccl(tensor):
            work.wait()
            return
        while True:
            try:
                work.wait(_LOOK)
                return
            except RuntimeError:
                if work.is_completed():
                    # It may have come to its end, or failed, right after this look gave up waiting.
                    work.wait()
                    return
                if self._broken or self._connections.any_closed():
                    raise _gone() from None

    def guard(self, future: torch.futures.Future[Any], tensor: torch.Tensor) -> torch.futures.Future[Any]:
        """For others than `wait` to wait for a collective on this tensor.

        It fails when the group is shut, whatever gloo has forgotten.
        """
        if self._is_carried_by_nccl(tensor):
            return future
        devices: list[int | str | torch.device] = [tensor.device] if tensor.device.type != "cpu" else []
        guarded: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
        with self._lock:
            self._guarded.add(guarded)
        future.add_done_callback(lambda done: self._end(guarded, _outcome(done)))
        if self._broken:
            self._end(guarded, _gone())
        return guarded.then(_result)

    def largest(self, value: int) -> int:
        """The largest of all ranks' values; a collective on the CPU."""
        return max(self.gather(value)) if self.size > 1 else value

    def agree(self, value: int, told: tuple[float, ...]) -> tuple[int, tuple[float, ...]]:
        """The largest of all ranks' values, and the sums of their numbers, which are the same on all; a collective."""
        if self.size == 1:
            return value, told
        rows = torch.zeros(self.size, 1 + len(told), dtype=torch.int64)
        rows[self.rank, 0] = value
        # Bit by bit: added to zeros they stay what they are.
        rows[self.rank, 1:] = torch.tensor(told, dtype=torch.float64).view(torch.int64)
        self.all_reduce(rows)
        sums = rows[:, 1:].contiguous().view(torch.float64).sum(dim=0)
        return int(rows[:, 0].max()), tuple(sums.tolist())

    def gather(self, value: int) -> list[int]:
        """All ranks' values in rank order; a collective on the CPU."""
        if self.size == 1:
            return [value]
        values = torch.zeros(self.size, dtype=torch.int64)
        values[self.rank] = value
        self.all_reduce(values)
        return [int(each) for each in values]

    def send_bytes(self, payload: bytes | None, source: int) -> bytes:
        """Gives the source's bytes to all; a collective on the CPU."""
        if self.size == 1:
            return payload or b""
        length = torch.tensor([len(payload or b"")])
        self.broadcast(length, source)
        buffer = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == source:
            buffer.copy_(torch.frombuffer(bytearray(payload or b""), dtype=torch.uint8))
        self.broadcast(buffer, source)
        return buffer.numpy().tobytes() if buffer.numel() else b""

    def settle_device(self) -> None:
        """Waits until the device has done what it was given, so that all collectives of the step have ended.

        GroupBroken where the group was shut or a collective failed: what the device computed then is worth nothing.
        """
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        if self._broken:
            raise _gone()
        if self._nccl is not None and self._nccl.failed():
            raise GroupBroken("a collective of NCCL failed or took too long")

    def shut(self) -> None:
        """Breaks the group, from any thread: whoever waits in one of its collectives, on any rank, gets an error."""
        self._broken = True
        self._connections.shut()
        with self._lock:
            waiting = list(self._guarded)
        for guarded in waiting:
            self._end(guarded, _gone())
        if self._nccl is not None:
            self._nccl.abort()

    def _is_carried_by_nccl(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type != "cpu" and self._nccl is not None

    def _end(self, guarded: torch.futures.Future[Any], outcome: Any) -> None:
        """An outcome that is an error is raised where the future is waited for; only the first one counts."""
        with self._lock:
            if guarded not in self._guarded:
                return
            self._guarded.discard(guarded)
        guarded.set_result(outcome)

    def dissolve(self) -> None:
        """Takes the group down, whole or broken; torch has no default group afterwards."""
        # The script's own groups (`new_group`) are among them.
        for group in list(distributed_c10d._world.pg_map):
            if self._broken:
                # What stays are a few idle threads.
                old_groups.hold_for_ever(group)
            else:
                old_groups.hold(group)
            del group
        if dist.is_initialized():
            distributed_c10d._abort_process_group()
        if isinstance(self._store, SignedStore):
            self._store.close()
        old_groups.release()


def _gone() -> GroupBroken:
    return GroupBroken("a member of the group has left")


def _outcome(future: torch.futures.Future[Any]) -> Any:
    try:
        return future.value()
    except RuntimeError as error:
        return error


def _result(future: torch.futures.Future[Any]) -> Any:
    outcome = future.value()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def form(
    endpoint: str | None,
    token: str,
    connections: Connections,
    membership: Membership,
    rank: int,
    attempt: int,
    timeout_seconds: float,
    still_wanted: Callable[[], bool],
    missing: Missing | None = None,
) -> Group:
    """Meets the other members at rank 0's store and connects with them.

    Until all have come, `still_wanted` is asked again and again, so that a member who died does not hold up the
    others. A member who dies after that holds them up until the group's connections are shut, or for some seconds.

    Args:
        endpoint: of the store that rank 0 serves; None while it is not known.
        token: of the job.
        connections: made just before; `shut` on them ends this call as well.
        missing: see `meet`.
        attempt: how often this generation's group broke before; the same on all ranks.
    Raises:
        Superseded: `still_wanted` said no.
        GroupBroken: connecting failed after all had met.
    """
    try:
        store = meet(endpoint, token, membership, rank, attempt, still_wanted, missing)
        try:
            if connections.is_shut:
                raise Superseded
            return Group(membership, rank, store, timeout_seconds, connections)
        except BaseException:
            store.close()
            raise
    except (OSError, RuntimeError) as error:
        if dist.is_initialized():
            distributed_c10d._abort_process_group()
        raise GroupBroken(f"generation {membership.name} could not be formed: {error}") from None
