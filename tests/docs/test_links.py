"""Links in the documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [path for path in sorted(ROOT.glob("*.md")) if path.is_file()]
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
SOURCE = re.compile(r"(?:src|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """What the document points to, code left out."""
    prose = FENCE.sub("", text)
    return [*LINK.findall(prose), *SOURCE.findall(prose)]


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown reader makes of the headings."""
    headings = re.findall(r"^#+\s+(.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=[path.name for path in DOCUMENTS])
def test_links_resolve_to_files_and_headings(document: Path) -> None:
    broken = []
    for link in links(document.read_text()):
        if re.match(r"[a-z]+:", link):
            continue  # another site
        name, _, anchor = link.partition("#")
        target = (document.parent / name) if name else document
        found = target.exists() and target.resolve().is_relative_to(ROOT)
        if not found or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            broken.append(link)
    assert not broken


def test_links_are_seen_in_every_form_but_not_in_code() -> None:
    text = 'see [a](b.md#c) and ![d](e.svg "f") <img src="g.png">\n```\n[no](x)\n```\n'
    assert links(text) == ["b.md#c", "e.svg", "g.png"]
    assert anchors("## How it works: `sched top`\n") == {"how-it-works-sched-top"}
