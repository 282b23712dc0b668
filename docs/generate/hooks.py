"""What MkDocs does besides: files of the project that documents link to become pages, and nothing loads from elsewhere.

Documents link to files outside of docs/ (`../examples/digits.py`), which a reader of the repository can follow. In the
site each of them is a page below files/.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from docs.generate.links import link_targets, with_links

ROOT = Path(__file__).parent.parent.parent
#: Where the pages of files outside of docs/ are.
FILES = "files"
_FENCE = "`" * 4
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".sh": "sh"}
#: Addresses in the theme's scripts, for features that this site does not have and for one message.
_FOREIGN = re.compile(r"https://(?:unpkg\.com|api\.github\.com|bit\.ly)/[\w./@-]*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside of docs/ that a document links to, and for those that these link to."""
    waiting = [
        (PurePosixPath("docs", file.src_uri), Path(str(file.abs_src_path)).read_text())
        for file in files.documentation_pages()
    ]
    known: set[PurePosixPath] = set()
    while waiting:
        source, text = waiting.pop()
        for target in {_target(source, link) for link in link_targets(text)} - known:
            if target is None:
                continue
            known.add(target)
            content = _text(target)
            files.append(File.generated(config, _uri(target), content=content, inclusion=InclusionLevel.NOT_IN_NAV))
            waiting.append((target, content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links that leave docs/, or come back to it, to the pages that they mean."""
    uri = PurePosixPath(page.file.src_uri)
    source = _source(uri)

    def moved(link: str) -> str:
        _name, hash_sign, anchor = link.partition("#")
        resolved = _resolved(source, link)
        if resolved is None:
            return link
        target = _target(source, link)
        place = _uri(target) if target is not None else str(resolved.relative_to(ROOT / "docs"))
        return "../" * (len(uri.parts) - 1) + place + hash_sign + anchor

    return with_links(markdown, moved)


def on_post_build(config: MkDocsConfig) -> None:
    """Take addresses of other sites out of the theme's script, and leave its source maps out."""
    scripts = Path(config.site_dir, "assets", "javascripts")
    for path in scripts.rglob("*.js"):
        path.write_text(_FOREIGN.sub("", path.read_text()))
    for path in Path(config.site_dir, "assets").rglob("*.map"):
        path.unlink()


def _source(uri: PurePosixPath) -> PurePosixPath:
    """The file that a page shows, from the project's directory."""
    if uri.parts[0] != FILES:
        return PurePosixPath("docs", uri)
    path = PurePosixPath(*uri.parts[1:])
    return path if (ROOT / path).is_file() else path.with_suffix("")


def _resolved(source: PurePosixPath, link: str) -> Path | None:
    """The file of the project that a link in `source` leads to; None: another site, or the page itself."""
    name = link.partition("#")[0]
    if not name or re.match(r"[a-z]+:", link):
        return None
    path = (ROOT / source.parent / name).resolve()
    return path if path.exists() and path.is_relative_to(ROOT) else None


def _target(source: PurePosixPath, link: str) -> PurePosixPath | None:
    """The file outside of docs/ that a link leads to, from the project's directory; None: another link."""
    path = _resolved(source, link)
    if path is None or path.is_relative_to(ROOT / "docs"):
        return None
    if (path / "README.md").is_file():
        path /= "README.md"
    return PurePosixPath(path.relative_to(ROOT))


def _uri(target: PurePosixPath) -> str:
    """Where the page of a file is: Markdown keeps its name."""
    return f"{FILES}/{target}" if target.suffix == ".md" else f"{FILES}/{target}.md"


def _text(target: PurePosixPath) -> str:
    """The page of a file: Markdown as it is, other text as code, a directory as the list of its files."""
    path = ROOT / target
    if target.suffix == ".md":
        return path.read_text()
    head = f"---\nsearch:\n  exclude: true\n---\n# {target}\n\n"
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
        return head + "".join(f"- [{name}]({target.name}/{name})\n" for name in names)
    return f"{head}{_FENCE}{_LANGUAGES.get(target.suffix, 'text')}\n{path.read_text()}{_FENCE}\n"
