"""Jobs that the policy in force would never start are refused before they are stored."""

from collections.abc import Mapping

from scheduler.config import PolicySettings
from scheduler.errors import InvalidInput
from scheduler.model.job import JobSpec, Runtime


def check_policy(settings: PolicySettings, specs: Mapping[str, JobSpec]) -> None:
    """Raise `InvalidInput` for the first such job. `specs`: by their places in the body."""
    if settings.name == "elastic":
        return
    for place, spec in specs.items():
        if spec.fixed is None:
            continue
        driven = spec.runtime is Runtime.HOROVOD
        field, what = ("runtime", "runtime horovod") if driven else ("fixed", "fixed groups")
        rule = f"the current policy {settings.name} does not support {what}: policy elastic does"
        raise InvalidInput(place + field, rule)
