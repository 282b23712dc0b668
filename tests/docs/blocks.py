"""The code blocks of a page, and how what a page shows is compared with what a command prints."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
#: Stands for any number of lines, or within a line for its rest or a part of it.
ELISION = "…"
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|ya?ml|toml))$")

#: Each pattern and what stands for all that it matches: no two runs have the same of these.
_VARIABLE = [
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z?)?"), "TIME"),
    (re.compile(r"\bhttp://127\.0\.0\.1:\d+"), "URL"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd])(?=\b|\d) ?)+"), "SPAN "),
    (re.compile(r"\b\d[\d,]*\.\d+\b"), "NUMBER"),
    (re.compile(r"\b\d+(?:\.\d+)?%"), "SHARE"),
    (re.compile(r"\b(step|generation) \d+"), r"\1 NUMBER"),
    (re.compile(r"\bREADY +\d+"), "READY GENERATION"),
    (re.compile(r"\b(user|leader|version|pid=?) +\S+"), r"\1 NAME"),
    (re.compile(r"[▁▂▃▄▅▆▇█]+"), "BLOCKS"),
]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text without the fence's indent, the line where it begins."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name in a first line such as `# train.py`: a reader saves the block under it."""
        named = _FILE.match(self.text.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    """All blocks of the page, in order."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        inner = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        found.append(Block(match["language"], inner, text.count("\n", 0, match.start()) + 1))
    return found


def steps(page: Path) -> list[tuple[Block, Block | None]]:
    """What a reader does, in order: blocks to run and files to save, each with the output that the page shows."""
    every = blocks(page)
    found = []
    for number, block in enumerate(every):
        if block.language == "sh" or block.file:
            after = every[number + 1] if number + 1 < len(every) else None
            found.append((block, after if after is not None and after.language == "text" else None))
    return found


def commands(block: Block) -> list[str]:
    """The command lines of a block of shell, continued lines joined, comments left out."""
    lines = block.text.replace("\\\n", " ").splitlines()
    bare = [re.sub(r"(^|\s)#\s.*$", "", line).strip() for line in lines]
    return [line for line in bare if line]


def normal(text: str) -> list[str]:
    """The lines of an output, with what differs from run to run replaced, and columns of any width."""
    for pattern, name in _VARIABLE:
        text = pattern.sub(name, text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line]


def shows(expected: str, output: str) -> bool:
    """Whether the output is what the page shows."""
    lines = [r"(?:.*\n)*?" if line == ELISION else f"{_pattern(line)}\n" for line in normal(expected)]
    pattern = "".join(lines)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in normal(output))) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(ELISION))
