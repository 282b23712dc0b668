"""What the code says to people: the texts of the package, and those of the page."""

import ast
from functools import cache

from tests.docs.blocks import ROOT

_PAGE = ROOT / "scheduler" / "http" / "page"


@cache
def said() -> str:
    """All texts of the code, one a line, with a mark where something is filled in."""
    texts = []
    for path in (ROOT / "scheduler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)
                texts.append("".join(parts))
    return "\n".join(texts)


@cache
def said_by_the_page() -> str:
    """All of its scripts and markup."""
    return "\n".join(path.read_text() for path in sorted(_PAGE.iterdir()) if path.suffix in (".js", ".html"))
