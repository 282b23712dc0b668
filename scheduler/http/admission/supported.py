"""Jobs that the policy in force would never start are refused before they are stored."""

from collections.abc import Sequence

from scheduler.config import PolicySettings
from scheduler.errors import InvalidInput
from scheduler.model.job import JobSpec, Runtime


def check_policy(settings: PolicySettings, specs: Sequence[JobSpec], prefix: str = "") -> None:
    """Raise `InvalidInput` for the first such job. `prefix`: a job's place in the body."""
    if settings.name == "elastic":
        return
    for index, spec in enumerate(specs):
        if spec.fixed is None:
            continue
        driven = spec.runtime is Runtime.HOROVOD
        field, what = ("runtime", "runtime horovod") if driven else ("fixed", "fixed groups")
        rule = f"the current policy {settings.name} does not support {what}: policy elastic does"
        raise InvalidInput(prefix.format(index) + field, rule)
