"""Rules for the fields of documents from outside: which may be there, and what they may hold. Standard library only.

A rule is a value. `broken` gives the first thing that breaks it: its path, and what would be right.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

#: A path, and what would be right there.
Broken = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Leave:
    """What the reader of a document grants its writer."""

    #: Everything that is not wrong by itself; fields that the rules do not know, too.
    trusted: bool = False
    #: Further resources that may be asked for.
    resources: Container[str] = ()


class Rule(ABC):
    """What a field may hold."""

    @abstractmethod
    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        """The first thing in `value`, found at `path`, that is not right; None if all is."""


@dataclass(frozen=True, slots=True)
class Scalar(Rule):
    """One value of the given types; numbers are finite."""

    types: tuple[type, ...]
    name: str

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        right = isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))
        if right and isinstance(value, int | float):
            right = math.isfinite(value) and abs(value) < 2**63  # more the API does not read
        return None if right else (path, f"must be {self.name}")


@dataclass(frozen=True, slots=True)
class Anything(Rule):
    """Whatever the API takes."""

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        return None


@dataclass(frozen=True, slots=True)
class Refused(Rule):
    """A field that only those who are trusted may have."""

    why: str

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        return None if leave.trusted else (path, self.why)


@dataclass(frozen=True, slots=True)
class Only(Rule):
    """Certain values; those who are trusted may give others of the same kind."""

    rule: Rule
    allows: Callable[[Any], bool]
    why: str

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        wrong = self.rule.broken(value, path, leave)
        if wrong is not None or leave.trusted or self.allows(value):
            return wrong
        return path, self.why


@dataclass(frozen=True, slots=True)
class ListOf(Rule):
    item: Rule

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        if not isinstance(value, list):
            return path, "must be a list"
        found = (self.item.broken(each, f"{path}.{index}", leave) for index, each in enumerate(value))
        return next((wrong for wrong in found if wrong is not None), None)


@dataclass(frozen=True, slots=True)
class MapOf(Rule):
    """Any names, each with a value of one kind. `names` says of a name why it is refused."""

    value: Rule
    names: Callable[[str, Leave], str | None] = lambda name, leave: None

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        if not isinstance(value, dict):
            return path, "must be a mapping"
        for name, each in value.items():
            why = None if leave.trusted else self.names(name, leave)
            wrong = (f"{path}.{name}", why) if why is not None else self.value.broken(each, f"{path}.{name}", leave)
            if wrong is not None:
                return wrong
        return None


@dataclass(frozen=True, slots=True)
class Record(Rule):
    """Named fields, each with its rule, and no others."""

    fields: Mapping[str, Rule]
    required: tuple[str, ...] = ()

    def broken(self, value: Any, path: str, leave: Leave) -> Broken | None:
        if not isinstance(value, dict):
            return path, "must be a mapping"
        for name, each in value.items():
            rule = self.fields.get(name)
            wrong = self._unknown(name, path, leave) if rule is None else rule.broken(each, f"{path}.{name}", leave)
            if wrong is not None:
                return wrong
        missing = next((name for name in self.required if name not in value), None)
        return None if missing is None else (path, f"must have {missing}")

    def _unknown(self, name: str, path: str, leave: Leave) -> Broken | None:
        by_lower = {known.lower(): known for known in self.fields}
        meant = by_lower.get(name.lower())
        if leave.trusted and meant is None:
            return None  # of an API that is newer than these rules
        close = [meant] if meant is not None else get_close_matches(name, self.fields, cutoff=0.8)
        hint = f"did you mean {close[0]}?" if close else "not among the fields that a pod template may have"
        return f"{path}.{name}", f"unknown field: {hint}"


TEXT = Scalar((str,), "a string")
FLAG = Scalar((bool,), "true or false")
WHOLE = Scalar((int,), "an integer")
QUANTITY = Scalar((str, int, float), "a quantity such as 500m or 2Gi")
ANYTHING = Anything()
TEXTS = ListOf(TEXT)
WHOLES = ListOf(WHOLE)
TEXT_MAP = MapOf(TEXT)
