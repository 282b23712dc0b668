"""Copies of training state: kept in memory, sent to other ranks. Imports torch."""

import pickle
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

import torch

from scheduler.elastic.group.group import Group
from scheduler.elastic.training.allowed import decode, encode, require_allowed

#: State is sent in pieces, so that no second copy of a large model is needed at once.
_PIECE_BYTES = 64 * 2**20
#: Each tensor starts at a multiple of this in the stream: a view of another type needs an aligned start.
_ALIGN_BYTES = 16
#: Types of values that are always allowed, and hold no others.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


@dataclass(frozen=True, slots=True)
class _Slot:
    """Stands in the structure for a tensor that travels separately."""

    index: int


torch.serialization.add_safe_globals([_Slot])


class Snapshot:
    """One consistent copy of nested dicts, lists and tuples of tensors and plain values.

    It shares no memory with what it was taken from. Taken again, it reuses its tensors where the shapes allow.
    """

    def __init__(self) -> None:
        #: As pickle makes it, of values of this process, and for this process alone.
        self._structure: bytes = b""
        self._tensors: list[torch.Tensor] = []
        self._types: frozenset[type] = _PLAIN

    def take(self, tree: Any) -> None:
        """Copies the tree. `UsageError` for a type that no other worker, and no checkpoint, could be told of."""
        live: list[torch.Tensor] = []
        types: set[type] = set()
        structure = _split(tree, live, types)
        if not types <= self._types:
            require_allowed(structure)
            self._types |= types
        if not _alike(self._tensors, live):
            self._tensors = [tensor.detach().clone() for tensor in live]
        elif live:
            torch._foreach_copy_(self._tensors, [tensor.detach() for tensor in live])
        # Plain values may be mutable (a dict of counts, say): pickling copies them all.
        self._structure = pickle.dumps(structure)

    def tree(self) -> Any:
        """A fresh copy of the tree that was taken."""
        return _join(pickle.loads(self._structure), [tensor.clone() for tensor in self._tensors])

    def send(self, group: Group, source: int) -> None:
        """Makes every rank's snapshot equal to that of rank `source`; a collective.

        A rank that gets an error keeps the snapshot it had.
        """
        mine = group.rank == source
        header: bytes | None = None
        if mine:
            content = (pickle.loads(self._structure), [_describe(tensor) for tensor in self._tensors])
            require_allowed(content)
            header = encode(content)
        structure, described = decode(group.send_bytes(header, source))
        tensors = self._tensors if mine else [_allocate(*description) for description in described]
        for kind in ("cpu", "cuda"):
            chosen = [tensor for tensor in tensors if tensor.device.type == kind and tensor.numel()]
            for piece in _pieces(chosen):
                _broadcast(group, piece, source, mine)
        self._structure, self._tensors = pickle.dumps(structure), tensors


def _split(tree: Any, tensors: list[torch.Tensor], types: set[type]) -> Any:
    """The tree with slots in the place of tensors, which are added to these, as are the types of keys and values."""
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return _Slot(len(tensors) - 1)
    if isinstance(tree, dict) and type(tree) is not Counter:
        types.update(map(type, tree))
        return _kind_of(tree)((key, _split(value, tensors, types)) for key, value in tree.items())
    if isinstance(tree, list):
        return [_split(value, tensors, types) for value in tree]
    if type(tree) is tuple:
        return tuple(_split(value, tensors, types) for value in tree)
    types.add(type(tree))
    return tree


def _join(structure: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(structure, _Slot):
        return tensors[structure.index]
    if isinstance(structure, dict) and type(structure) is not Counter:
        return _kind_of(structure)((key, _join(value, tensors)) for key, value in structure.items())
    if isinstance(structure, list):
        return [_join(value, tensors) for value in structure]
    if type(structure) is tuple:
        return tuple(_join(value, tensors) for value in structure)
    return structure


def _kind_of(tree: dict[Any, Any]) -> type[dict[Any, Any]]:
    """What it comes back as; other types of dict come back as plain ones."""
    return OrderedDict if isinstance(tree, OrderedDict) else dict


def _alike(kept: list[torch.Tensor], live: list[torch.Tensor]) -> bool:
    return len(kept) == len(live) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.device == b.device for a, b in zip(kept, live, strict=True)
    )


def _describe(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype, str]:
    return tensor.shape, tensor.dtype, tensor.device.type


def _allocate(shape: torch.Size, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=device)


def _pieces(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    pieces: list[list[torch.Tensor]] = []
    room = 0
    for tensor in tensors:
        if tensor.nbytes > room or not pieces:
            pieces.append([])
            room = _PIECE_BYTES
        pieces[-1].append(tensor)
        room -= tensor.nbytes
    return pieces


def _broadcast(group: Group, tensors: list[torch.Tensor], source: int, mine: bool) -> None:
    """As raw bytes, since gloo does not know every type that a state may hold."""
    sizes = [-(-tensor.nbytes // _ALIGN_BYTES) * _ALIGN_BYTES for tensor in tensors]
    stream = torch.zeros(sum(sizes), dtype=torch.uint8, device=tensors[0].device)
    places = stream.split(sizes)
    if mine:
        for tensor, place in zip(tensors, places, strict=True):
            place[: tensor.nbytes].copy_(tensor.contiguous().view(-1).view(torch.uint8))
    group.broadcast(stream, source)
    if not mine:
        for tensor, place in zip(tensors, places, strict=True):
            tensor.copy_(place[: tensor.nbytes].view(tensor.dtype).view(tensor.shape))
