"""Deals the samples of an epoch to the ranks, exactly once, whatever happens to their number. Imports torch."""

import hashlib
from collections.abc import Iterator, Sized
from contextlib import suppress
from typing import Any

import torch
from torch.utils.data import Sampler

from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.arguments import whole
from scheduler.elastic.training.batch import BatchPolicy, ConstantBatch


class ElasticDistributedSampler(Sampler[list[int]]):
    """A batch sampler whose position in the epoch is part of the committed state.

    The epoch's order is a permutation that depends on `seed` and epoch alone. Each step takes the next global
    batch of it and splits that evenly among the ranks, so one integer, the position, says what is left: after a
    resize the rest is dealt again among the new ranks, after a rollback the lost step's samples are.

    No sample is repeated to make shares even. The last step of an epoch may have fewer samples than there are
    ranks: a rank may then get an empty list and must still take part in the step's collectives.

    Use it as `batch_sampler` of a `DataLoader` (with `collate_empty` where shares may be empty), or iterate over it
    for lists of indices. Either way let `State.batches` drive it: that moves the position.

    Args:
        samples: size of the data set, or the data set.
        batch: a batch policy; a number means `ConstantBatch(number)`.
        seed: the same on all ranks.
        shuffle: False deals in the data set's order.
    """

    def __init__(
        self, samples: int | Sized, batch: int | BatchPolicy = 64, seed: int = 0, shuffle: bool = True
    ) -> None:
        self.samples = _size_of(samples)
        self.policy = _policy_of(batch)
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        #: how many of the epoch's samples have been dealt to finished steps, on all ranks together
        self.position = 0
        self.rank = 0
        self.world_size = 1
        self._order: torch.Tensor | None = None
        self._order_of: tuple[int, int] | None = None
        self._last = 0

    def set_group(self, rank: int, world_size: int) -> None:
        """From now on deals for this rank of a group of this size; iterators made before are void."""
        self.rank = rank
        self.world_size = world_size

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch; the current one is left where it stands."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.position = 0

    @property
    def global_batch(self) -> int:
        """Samples of one full step on all ranks together."""
        return self.policy.global_batch(self.world_size)

    @property
    def share(self) -> int:
        """How many samples of the current step are this rank's."""
        low, high = share_of(self._last, self.rank, self.world_size)
        return high - low

    @property
    def weight(self) -> float:
        """This rank's share of the current step relative to an even one.

        For `DistributedDataParallel`, which weighs all ranks alike: multiply a mean loss with it. It is 0 where
        the share is empty.
        """
        return self.share * self.world_size / self._last if self._last else 0.0

    def advance(self) -> int:
        """Counts the next step's samples, of all ranks, as consumed and says how many they are."""
        self._last = min(self.global_batch, self.samples - self.position)
        self.position += self._last
        return self._last

    def __len__(self) -> int:
        """Steps that remain in the epoch; the same on all ranks."""
        return -(-(self.samples - self.position) // self.global_batch)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's share of each remaining step, as the group is now; runs ahead of `position` without moving it."""
        order = self._permutation()
        rank, size, batch = self.rank, self.world_size, self.global_batch
        for start in range(self.position, self.samples, batch):
            low, high = share_of(min(batch, self.samples - start), rank, size)
            yield order[start + low : start + high].tolist()

    def state_dict(self) -> dict[str, Any]:
        """The position; with the constructor's arguments it determines what is dealt from here."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "samples": self.samples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to a position; refuses that of another data set."""
        if state["samples"] != self.samples:
            raise UsageError(
                f"the saved position is for {state['samples']} samples, but the data set has {self.samples}"
            )
        self.epoch = state["epoch"]
        self.position = state["position"]
        self.seed = state["seed"]

    def _permutation(self) -> torch.Tensor:
        if not self.shuffle:
            return torch.arange(self.samples)
        if self._order is None or self._order_of != (self.seed, self.epoch):
            # Neighbouring seeds and epochs must not share permutations, so both are hashed into one number.
            digest = hashlib.blake2b(f"{self.seed}/{self.epoch}".encode(), digest_size=4).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))
            self._order = torch.randperm(self.samples, generator=generator)
            self._order_of = self.seed, self.epoch
        return self._order


def share_of(samples: int, rank: int, world_size: int) -> tuple[int, int]:
    """Bounds of a rank's share of `samples` in a row; shares differ by one at most."""
    base, extra = divmod(samples, world_size)
    low = rank * base + min(rank, extra)
    return low, low + base + (rank < extra)


def _size_of(samples: int | Sized) -> int:
    size = None
    with suppress(TypeError):
        size = len(samples)  # type: ignore[arg-type]
    if size is None:
        size = whole("samples, unless it is a data set with a length,", samples, 0)
    if size == 0:
        raise UsageError("the data set is empty")
    return size


def _policy_of(batch: int | BatchPolicy) -> BatchPolicy:
    # A class has what its objects have.
    if isinstance(batch, BatchPolicy) and not isinstance(batch, type):
        return batch
    return ConstantBatch(whole("batch, unless it is a policy such as ScaledBatch(64),", batch, 1))
