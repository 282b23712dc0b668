"""A world whose ticks are measured."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from scheduler.config import Settings
from scheduler.engine.tick import TickReport
from scheduler.metrics import Metrics
from tests.world import World


class Observed(World):
    """The world builder with metrics."""

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        super().__init__(directory, settings=settings)
        self.metrics = Metrics(self.board, (), self.clock)

    def tick(self) -> TickReport:
        report = super().tick()
        self.metrics.observe(report)
        return report

    def value(self, name: str, **labels: str) -> float:
        return value(self.metrics, name, **labels)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    return sum(number for labelled, number in samples(metrics, name) if labels.items() <= labelled.items())


def samples(metrics: Metrics, name: str) -> list[tuple[dict[str, str], float]]:
    """All samples of this name."""
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    families = text_string_to_metric_families("\n".join(lines))
    return [(dict(sample.labels), sample.value) for family in families for sample in family.samples]
