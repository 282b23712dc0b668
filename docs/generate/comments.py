"""What the comments `#:` of a class say of its members: the line or lines above each of them."""

import inspect
import re

_COMMENT = re.compile(r"\s*#:\s?(.*)")
_MEMBER = re.compile(r"    (\w+)(?::| =)")


def member_comments(kind: type) -> dict[str, str]:
    """Member and its comment, as they stand in the source of the class and of those that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(_classes(kind)):
        above: list[str] = []
        for line in inspect.getsource(each).splitlines():
            if comment := _COMMENT.fullmatch(line):
                above.append(comment.group(1))
                continue
            if above and (member := _MEMBER.match(line)):
                found[member.group(1)] = " ".join(above)
            above = []
    return found


def _classes(kind: type) -> list[type]:
    """The class and those of this project that it comes from, itself first; a typed dictionary forgets its bases."""
    bases = getattr(kind, "__orig_bases__", kind.__bases__)
    mine = [base for base in bases if isinstance(base, type) and base.__module__.startswith("scheduler.")]
    return [kind, *(each for base in mine for each in _classes(base))]
