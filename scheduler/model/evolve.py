"""Copies of frozen values with other fields, and how frozen values are made quickly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, make_dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["evolve", "unfrozen"]

if TYPE_CHECKING:  # so that fields and their types are checked
    from dataclasses import replace as evolve
else:

    def evolve(value, /, **changes):
        """As `dataclasses.replace`, in a third of the time: a tick makes thousands of values."""
        values_of, place, make = _shape(type(value))
        values = list(values_of(value))
        for name, new in changes.items():
            values[place[name]] = new
        return make(*values)


def unfrozen(kind: type[Any], names: Sequence[str]) -> type[Any]:
    """A class of values with all slots of this dataclass, made of them in this order, that is not frozen.

    What is frozen sets each of its fields by a call, which takes several times as long: a value may be made as one of
    this class, and become one of its own class by an assignment to `__class__`.
    """
    return make_dataclass(kind.__name__, names, slots=True, eq=False, repr=False)


@cache
def _shape(
    kind: type[Any],
) -> tuple[Callable[[object], tuple[Any, ...]], Mapping[str, int], Callable[..., Any]]:
    """What reads all fields of such a value, the place of each, and what makes a value of all of them."""
    names = [field.name for field in fields(kind)]
    # One that extends another, or has no slots, is laid out in another way.
    plain = kind.__base__ is object and "__slots__" in vars(kind)
    make = _quickly(kind, names) if plain else kind
    return attrgetter(*names), {name: place for place, name in enumerate(names)}, make


def _quickly(kind: type[Any], names: Sequence[str]) -> Callable[..., Any]:
    """What makes values of these fields as the class does."""
    made_of, check = unfrozen(kind, names), getattr(kind, "__post_init__", None)

    def make(*values: Any) -> Any:
        made = made_of(*values)
        made.__class__ = kind
        if check is not None:
            check(made)
        return made

    return make
