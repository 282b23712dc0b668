"""The digits example, slowed down for as long as the file named last on the command line exists."""

import sys
import time
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import digits  # noqa: E402

#: After this many steps each takes twice as long as the first, and so on: a slow training never comes to its end.
STEPS = 20

if __name__ == "__main__":
    slow = Path(sys.argv.pop())
    steps = count()
    digits.main(lambda seconds: time.sleep(seconds * (1 + next(steps) / STEPS)) if slow.exists() else None)
