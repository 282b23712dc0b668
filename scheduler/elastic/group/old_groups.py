"""Holds torch's process groups after their end, until nothing else refers to them. Standard library only.

The destructor of a gloo group waits for its threads, and these may be waiting for the interpreter's lock (GIL): to drop
a tensor that Python has known, to call back. Where the last reference is Python's own, torch gives the lock up
meanwhile. Where it is the reducer of a `DistributedDataParallel`, it does not, and the process stands still for good.
So the last reference is always the one here, whoever lets go of the others, and whenever.
"""

import ctypes
import sys

_held: list[object] = []
#: An object that nothing else refers to, in the same kind of place.
_unshared: list[object] = [object()]


def hold(group: object) -> None:
    """Takes a reference, before the others go."""
    _held.append(group)


def hold_for_ever(group: object) -> None:
    """For a group with stuck collectives: its destructor would wait for them, even at the interpreter's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def release() -> None:
    """Lets go of those that nothing else in Python refers to; what is left stays until another call."""
    for index in reversed(range(len(_held))):
        if sys.getrefcount(_held[index]) <= sys.getrefcount(_unshared[0]):
            del _held[index]
