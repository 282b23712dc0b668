"""`python -m benchmarks.publish [NAME...]`: let the documentation quote what was measured here.

Takes benchmarks/results/NAME.json over into benchmarks/figures, and a picture drawn beside it into docs; all of them
without names. `python -m docs.generate` then writes the page of figures, its charts, and the figures of README.md anew.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.__main__ import NAMES
from benchmarks.figure import PUBLISHED, RESULTS

DOCS = Path(__file__).parent.parent / "docs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks whose results to take over (default: all)")
    names = parser.parse_args().names or [name for name in NAMES if (RESULTS / f"{name}.json").exists()]
    if missing := [name for name in names if not (RESULTS / f"{name}.json").exists()]:
        parser.error(f"no result of {missing[0]!r}: run python -m benchmarks {missing[0]}")
    for name in names:
        publish(name)
        print(f"benchmarks/figures/{name}.json")
    return 0


def publish(name: str) -> None:
    """Keep what the documentation quotes: the figures and the machine, but not when it was."""
    result = json.loads((RESULTS / f"{name}.json").read_text())
    figures = [{key: value for key, value in row.items() if key != "verdict"} for row in result["figures"]]
    document = {"name": name, "machine": result["machine"], "figures": figures}
    (PUBLISHED / f"{name}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    if (picture := RESULTS / f"{name}.svg").exists():
        shutil.copyfile(picture, DOCS / picture.name.replace("_", "-"))


if __name__ == "__main__":
    sys.exit(main())
