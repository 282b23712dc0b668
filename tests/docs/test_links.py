"""Links in the documents lead somewhere."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from docs.generate.links import anchors, link_targets, with_links

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (".", "docs", "grafana", "examples", "manifests", "benchmarks")
DOCUMENTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_links_resolve_to_files_and_headings(document: Path) -> None:
    broken = [link for link in link_targets(document.read_text()) if not leads_somewhere(document, link)]
    assert not broken


def leads_somewhere(document: Path, link: str) -> bool:
    """Links to other sites are looked at for their form only."""
    if re.match(r"[a-z]+:", link):
        parts = urlsplit(link)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    name, _, anchor = link.partition("#")
    target = (document.parent / name).resolve() if name else document
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target.read_text()))


def test_every_document_is_looked_at() -> None:
    names = {str(path.relative_to(ROOT)) for path in DOCUMENTS}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "grafana/README.md",
        "docs/questions.md",
    } <= names


@pytest.mark.parametrize(
    "link",
    [
        "nowhere.md",
        "metrics.md#no-such-heading",
        "#no-such-heading",
        "../../outside.md",
        "site.css#x",
        "http:///x",
        "x:y",
    ],
)
def test_a_link_that_leads_nowhere_is_noticed(link: str) -> None:
    assert not leads_somewhere(ROOT / "docs" / "questions.md", link)


@pytest.mark.parametrize("link", ["metrics.md", "metrics.md#slots-and-nodes", "../LICENSE", "https://example.org/x"])
def test_a_link_that_leads_somewhere_is_not(link: str) -> None:
    assert leads_somewhere(ROOT / "docs" / "questions.md", link)


def test_links_are_seen_in_every_form_but_not_in_code() -> None:
    text = 'see [a `b`](b.md#c) and ![d](e.svg "f") <img src="g.png">\n```\n[no](x)\n```\n'
    text += "- a\n\n  ```sh\n  [no](y)\n  ```\n"
    assert link_targets(text) == ["b.md#c", "e.svg", "g.png"]


def test_links_are_replaced_where_they_are_seen() -> None:
    text = "[a](b.md)\n```\n[a](b.md)\n```\n![c](d.png)\n"
    assert with_links(text, str.upper) == "[a](B.MD)\n```\n[a](b.md)\n```\n![c](D.PNG)\n"


def test_anchors_are_those_of_readers_of_markdown() -> None:
    text = '## How it works: `sched top`\n## Twice\n## Twice\n```\n## no\n```\n<a id="own"></a>\n'
    assert anchors(text) == {"how-it-works-sched-top", "twice", "twice-1", "own"}
