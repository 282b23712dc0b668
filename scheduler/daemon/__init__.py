"""The composition root: puts the parts of one daemon together, runs them, and takes them down in order."""

from scheduler.daemon.serve import run

__all__ = ["run"]
