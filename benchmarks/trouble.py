"""What keeps a benchmark from being measured."""


class Skipped(Exception):
    """It cannot be measured here; the message says why."""
