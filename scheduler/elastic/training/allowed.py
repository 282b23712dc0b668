"""What a training state may hold, and its bytes, which run nothing when they are read. Imports torch.

Bytes of a state come from a disk or from another worker, and pickle runs whatever its bytes say. So they are read by
torch's restricted reader (`weights_only=True`), which makes values of listed types only. The list: what torch allows by
itself (tensors, parameters, None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set,
OrderedDict, Counter, and torch's Size, dtype and device), frozenset, numpy's arrays and numbers, and what the script
has added by `torch.serialization.add_safe_globals`. docs/elastic.md has the same list.
"""

import io
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch

from scheduler.elastic.errors import UsageError

#: How the paragraphs begin in which torch's reader advises.
_ADVICE = ("Weights only load failed", "Check the documentation", "Please file an issue")


def encode(content: Any) -> bytes:
    """The bytes of a state, or of a part of one."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def decode(data: bytes) -> Any:
    """The inverse of `encode`. UnpicklingError for a type that is not allowed, any error for damaged bytes."""
    return read(io.BytesIO(data))


def read(source: Path | BinaryIO) -> Any:
    """As `decode`, from a file; tensors come to the CPU."""
    return torch.load(source, map_location="cpu", weights_only=True)


def require_allowed(content: Any) -> None:
    """Raises `UsageError` where `decode` would not give the content back, and names the types that are in the way."""
    try:
        data = encode(content)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(f"the state holds a value that cannot be stored: {error}") from None
    try:
        decode(data)
    except pickle.UnpicklingError as error:
        names = strangers(io.BytesIO(data))
        raise UsageError(
            refusal("the state", names) if names else f"the state cannot be stored: {reason(error)}"
        ) from None


def strangers(source: Path | BinaryIO) -> list[str]:
    """The types and functions in a file that are not allowed, by their full names; none where it cannot be read."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(source))
    except Exception:
        return []


def refusal(what: str, names: list[str]) -> str:
    """One line that says what is not allowed, and what would be right."""
    return (
        f"{what} holds {', '.join(names)}, which is not on the list of allowed types: keep plain values, lists, dicts, "
        "tensors and state_dicts in it, or, for types that you trust, call "
        f"torch.serialization.add_safe_globals([{', '.join(names)}]) before elastic.run"
    )


def reason(error: Exception) -> str:
    """What the reader says of bytes that it does not read: one line, without its advice to trust them."""
    parts = [part.strip() for part in str(error).split("\n\n")]
    said = [part for part in parts if part and not part.startswith(_ADVICE)]
    return (said or [type(error).__name__])[0].partition("\n")[0]


def _numpy_globals() -> list[Any]:
    """What the bytes of numpy's arrays and numbers name. Arrays of objects are not among them."""
    try:
        import numpy
        from numpy import dtypes
        from numpy._core import multiarray
    except ImportError:  # torch goes without, too
        return []
    kinds = [value for name, value in vars(dtypes).items() if name.endswith("DType") and name != "ObjectDType"]
    # By the names of numpy 1 as well.
    made_by = [
        (getattr(multiarray, name), f"numpy.{core}.multiarray.{name}")
        for name in ("_reconstruct", "scalar")
        for core in ("core", "_core")
    ]
    return [numpy.ndarray, numpy.dtype, *kinds, *made_by]


torch.serialization.add_safe_globals([frozenset, *_numpy_globals()])
