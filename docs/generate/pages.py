"""Which pages are generated, and what makes each."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate import commands, events, figures, http_api, metrics, settings

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
#: File below docs/ and what makes its text; the same code gives the same text.
PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings.page,
    "commands.md": commands.page,
    "http-api.md": http_api.page,
    "metrics.md": metrics.page,
    "events.md": events.page,
    "figures.md": figures.page,
}
