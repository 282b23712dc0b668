"""`python -m docs.generate`: write every generated page and chart of the documentation, and the README's figures."""

import sys

from docs.generate.charts import charts
from docs.generate.comparison import with_fragment
from docs.generate.pages import DOCS, PAGES, README


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
