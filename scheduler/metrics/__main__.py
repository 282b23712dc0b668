"""`python -m scheduler.metrics > docs/metrics.md` prints the documentation of all metrics."""

from scheduler.metrics.document import document

print(document(), end="")
