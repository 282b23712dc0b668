"""The site builds without a warning, loads nothing from elsewhere, and each of its links has a target."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a directory of its own."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return directory


class Page(HTMLParser):
    """What a page loads, what it links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if "src" in given:
            self.loads.append(given["src"])
        if "srcset" in given:
            self.loads += [each.split()[0] for each in given["srcset"].split(",")]
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given["href"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        foreign = [each for each in Page(path).loads if urlsplit(each).netloc]
        assert not foreign, path.name
    for path in site.rglob("*.css"):
        assert not foreign_sources(path.read_text()), path.name
    for path in site.rglob("*.js"):
        assert not foreign_addresses(path.read_text()), path.name
    for path in site.rglob("*.svg"):
        text = path.read_text()
        assert not foreign_sources(text), path.name
        assert not re.findall(r"(?:href|src)=['\"](?:https?:)?//", text), path.name


def foreign_sources(text: str) -> list[str]:
    """What a style loads from another site; pictures that stand in it are no addresses."""
    sources = re.findall(r"url\(['\"]?((?!data:)[^'\")]+)|@import\s+['\"]([^'\"]+)", text)
    return [each for pair in sources for each in pair if urlsplit(each).netloc]


def foreign_addresses(text: str) -> list[str]:
    """Addresses in a script, but for its comments and the names of XML's vocabularies."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    code = re.sub(r"^\s*(?://|\*).*$", "", code, flags=re.MULTILINE)
    return [each for each in re.findall(r"(?:https?:|['\"`])//[\w-]+\.[\w./-]+", code) if "//www.w3.org/" not in each]


def test_an_address_in_a_script_or_a_style_is_noticed() -> None:
    assert foreign_addresses('x("https://unpkg.com/a.js")') == ["https://unpkg.com/a.js"]
    assert not foreign_addresses("/*! https://a.org */ x='http://www.w3.org/2000/svg'")
    style = "@import url(//a.org/b.css); @import 'https://c.org/d.css'; a{background:url(e.png) url(\"data:x,http://f.org\")}"
    assert foreign_sources(style) == ["//a.org/b.css", "https://c.org/d.css"]


def test_each_link_between_pages_has_a_target(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken
    assert len(pages) > 25


def test_light_and_dark_and_a_search_are_there(site: Path) -> None:
    text = (site / "index.html").read_text()
    assert 'data-md-color-scheme="slate"' in text
    assert "prefers-color-scheme: dark" in text
    index = (site / "search" / "search_index.json").read_text()
    assert "grow_payback_factor" in index
    assert "discover_hosts" in index


class _Loader(yaml.SafeLoader):
    """Takes the names of Python objects in mkdocs.yml as words."""


_LOADER_PREFIX = "tag:yaml.org,2002:python/"
_Loader.add_multi_constructor(_LOADER_PREFIX, lambda *_: None)


def named(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for each in part:
            yield from named(each)
    elif isinstance(part, dict):
        for each in part.values():
            yield from named(each)


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=_Loader)
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert sorted(named(settings["nav"])) == pages
