"""Links of a Markdown document: what it points to, and its anchors. Code is left out."""

import re
from collections.abc import Callable
from itertools import chain, count

_LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?)([^)\s>]+)(>?(?:\s+\"[^\"]*\")?\))")
_SOURCE = re.compile(r"((?:src|href|srcset)=\")([^\"]+)(\")")
_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1`* *$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
_EXPLICIT = re.compile(r"\sid=\"([\w-]+)\"|\{\s*#([\w-]+)\s*\}")


def link_targets(text: str) -> list[str]:
    """What the document points to: links and pictures, then sources of HTML."""
    prose = _FENCE.sub("", text)
    return [each.group(2) for form in (_LINK, _SOURCE) for each in form.finditer(prose)]


def with_links(text: str, changed: Callable[[str], str]) -> str:
    """The document with each link replaced."""
    parts = []
    at = 0
    for fence in _FENCE.finditer(text):
        parts += [_replaced(text[at : fence.start()], changed), fence.group()]
        at = fence.end()
    return "".join([*parts, _replaced(text[at:], changed)])


def _replaced(prose: str, changed: Callable[[str], str]) -> str:
    for form in (_LINK, _SOURCE):
        prose = form.sub(lambda each: each.group(1) + changed(each.group(2)) + each.group(3), prose)
    return prose


def anchors(text: str) -> set[str]:
    """The anchors that readers of Markdown make of the headings, and those that are written out."""
    prose = _FENCE.sub("", text)
    found: set[str] = set()
    for title in _HEADING.findall(prose):
        first = anchor(title)
        names = chain([first], (f"{first}-{number}" for number in count(1)))
        found.add(next(name for name in names if name not in found))
    return found | {first or second for first, second in _EXPLICIT.findall(prose)}


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
