"""Jobs whose pods would be more than the settings allow are refused before they are stored."""

from collections.abc import Sequence

from scheduler.config import Settings
from scheduler.errors import InvalidInput
from scheduler.model.job import JobSpec
from scheduler.model.pod_permissions import broken_pod_rule


def check_pods(settings: Settings, specs: Sequence[JobSpec], prefix: str = "") -> None:
    """Raise `InvalidInput` for the first such job, if workers are pods. `prefix`: a job's place in the body."""
    if settings.cluster != "kubernetes":
        return
    for index, spec in enumerate(specs):
        broken = broken_pod_rule(spec, settings.kubernetes)
        if broken is not None:
            raise InvalidInput(prefix.format(index) + broken[0], broken[1])
