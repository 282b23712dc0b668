"""Jobs whose pods would be more than the settings allow are refused before they are stored."""

from collections.abc import Mapping

from scheduler.config import KubernetesSettings, Settings
from scheduler.errors import InvalidInput
from scheduler.model.field_rules import Broken
from scheduler.model.job import JobSpec
from scheduler.model.pod_permissions import broken_pod_rule, named_namespaces


def check_pods(settings: Settings, specs: Mapping[str, JobSpec]) -> None:
    """Raise `InvalidInput` for the first such job, if workers are pods. `specs`: by their places in the body."""
    if settings.cluster != "kubernetes":
        return
    for place, spec in specs.items():
        broken = broken_pod_rule(spec, settings.kubernetes) or _broken_namespace(spec, settings.kubernetes)
        if broken is not None:
            raise InvalidInput(place + broken[0], broken[1])


def _broken_namespace(spec: JobSpec, settings: KubernetesSettings) -> Broken | None:
    """The first template in another team's namespace, whose secrets, config maps and claims it would reach."""
    if settings.trust_templates:
        return None
    why = f"must be {settings.namespace}: only TrainingJobs run in other namespaces, each in its own"
    return next(((field, why) for field, named in named_namespaces(spec) if named != settings.namespace), None)
