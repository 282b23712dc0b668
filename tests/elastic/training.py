"""The digits example, slowed down for as long as the file named last on the command line exists."""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import digits  # noqa: E402

if __name__ == "__main__":
    slow = Path(sys.argv.pop())
    digits.main(lambda seconds: time.sleep(seconds) if slow.exists() else None)
