"""Jobs whose pods would be more than the settings allow are refused before they are stored."""

from collections.abc import Mapping

from scheduler.config import Settings
from scheduler.errors import InvalidInput
from scheduler.model.job import JobSpec
from scheduler.model.pod_permissions import broken_pod_rule


def check_pods(settings: Settings, specs: Mapping[str, JobSpec]) -> None:
    """Raise `InvalidInput` for the first such job, if workers are pods. `specs`: by their places in the body."""
    if settings.cluster != "kubernetes":
        return
    for place, spec in specs.items():
        broken = broken_pod_rule(spec, settings.kubernetes)
        if broken is not None:
            raise InvalidInput(place + broken[0], broken[1])
