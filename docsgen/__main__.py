"""`python -m docsgen`: write every generated page and chart of the documentation, and the figures of README.md."""

import sys

from docsgen.charts import charts
from docsgen.comparison import with_fragment
from docsgen.pages import DOCS, PAGES, README


def main() -> int:
    for name, made in {**PAGES, **charts()}.items():
        (DOCS / name).write_text(made())
        print(f"docs/{name}")
    try:
        README.write_text(with_fragment(README.read_text()))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print("README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
