"""`python -m docsgen`: write every generated page of the documentation."""

import sys

from docsgen.pages import DOCS, PAGES


def main() -> int:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
