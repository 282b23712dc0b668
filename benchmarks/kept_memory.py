"""How much memory an object keeps: its own, and that of all that can be reached from it."""

import gc
import sys
from collections.abc import Collection
from types import FunctionType, MethodType, ModuleType

#: They belong to the program and lead to all of it, or to whoever wants to be called.
_NOT_KEPT = (type, ModuleType, FunctionType, MethodType)


def kept_mib(root: object, without: Collection[object]) -> float:
    """MiB of the objects that `root` keeps, each counted once; `without` those, and what only they keep."""
    seen = {id(each) for each in without}
    size, left = 0, [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _NOT_KEPT):
            continue
        seen.add(id(each))
        size += sys.getsizeof(each)
        left.extend(gc.get_referents(each))
    return size / 2**20
