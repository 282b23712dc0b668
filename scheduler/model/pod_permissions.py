"""What jobs may ask of the cluster for their pods, as the settings have it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.config import KubernetesSettings
from scheduler.model.field_rules import Broken, Leave
from scheduler.model.job import JobSpec
from scheduler.model.pod_fields import is_device_variable
from scheduler.model.pod_template import (
    broken_template_rule,
    in_template_namespace,
    parse_template,
    template_namespace,
)


def broken_pod_rule(spec: JobSpec, settings: KubernetesSettings) -> Broken | None:
    """The first thing that a job asks for and may not have: the field, and what would be right."""
    for place, template, env in _groups(spec):
        wrong = broken_variable(env, settings) or (None if template is None else broken_template(template, settings))
        if wrong is not None:
            return f"{place}{wrong[0]}", wrong[1]
    return None


def broken_template(text: str, settings: KubernetesSettings) -> Broken | None:
    """The first thing that a canonical template says and may not say."""
    namespace = template_namespace(text)
    if namespace is not None and namespace not in settings.worker_namespaces:
        named = ", ".join(settings.worker_namespaces)
        return "pod_template.metadata.namespace", f"{namespace} is no namespace of workers: they run in {named}"
    leave = Leave(settings.trust_templates, frozenset(settings.template_resources))
    return broken_template_rule(parse_template(text), leave)


def broken_variable(env: Iterable[tuple[str, str]], settings: KubernetesSettings) -> Broken | None:
    """The first variable that would show a worker devices which it did not ask for."""
    named = (name for name, _ in env if is_device_variable(name) and not settings.trust_templates)
    why = "not allowed without kubernetes.trust_templates: slots say which devices a worker sees"
    return next(((f"env.{name}", why) for name in named), None)


def run_in(spec: JobSpec, namespace: str) -> JobSpec:
    """The job with its pods in this namespace."""
    template = in_template_namespace(spec.pod_template, namespace)
    fixed = spec.fixed
    if fixed is not None:
        fixed = replace(fixed, pod_template=in_template_namespace(fixed.pod_template, namespace))
    return replace(spec, pod_template=template, fixed=fixed)


def named_namespaces(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """The namespaces that templates of a job name, and the fields where they do."""
    for place, template, _ in _groups(spec):
        namespace = template_namespace(template)
        if namespace is not None:
            yield f"{place}pod_template.metadata.namespace", namespace


def _groups(spec: JobSpec) -> Iterator[tuple[str, str | None, tuple[tuple[str, str], ...]]]:
    """Of its workers and of its fixed group: where fields stand, template, variables."""
    yield "", spec.pod_template, spec.env
    if spec.fixed is not None:
        yield "fixed.", spec.fixed.pod_template, spec.fixed.env
