"""Pod templates in requests: what they may not say, and that equal ones are one text."""

from typing import Any

import pytest

from scheduler.errors import InvalidInput
from scheduler.http.schemas.requests import JobRequest, check_request


@pytest.mark.parametrize(
    ("template", "field", "rule"),
    [
        ({"kind": "Pod"}, "pod_template.kind", "metadata and spec"),
        ({"spec": []}, "pod_template.spec", "mapping"),
        ({"metadata": {"name": "x"}}, "pod_template.metadata.name", "only labels and annotations"),
        ({"metadata": {"labels": {"a": 1}}}, "pod_template.metadata.labels.a", "must be a string"),
        ({"spec": {"nodeName": "a"}}, "pod_template.spec.nodeName", "node_selector"),
        ({"spec": {"restartPolicy": "Always"}}, "pod_template.spec.restartPolicy", "not allowed"),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, "pod_template.spec.terminationGracePeriodSeconds", "grace"),
        ({"spec": {"containers": {}}}, "pod_template.spec.containers", "must be a list"),
        (
            {"spec": {"containers": [{"command": ["x"]}]}},
            "pod_template.spec.containers.0.command",
            "use command of the job",
        ),
        (
            {"spec": {"containers": [{"name": "logs"}, {"name": "worker", "args": ["x"]}]}},
            "pod_template.spec.containers.1.args",
            "use command of the job",
        ),
        ({"spec": {"containers": [{"env": [1]}]}}, "pod_template.spec.containers.0.env.0", "must be a mapping"),
        ({"spec": {"containers": [{"env": [{}]}]}}, "pod_template.spec.containers.0.env.0", "must have name"),
        ({"metadata": {"labels": {"a": "x" * 300_000}}}, "pod_template", "exceeds 256 KiB"),
    ],
)
def test_a_template_that_says_what_the_scheduler_decides_is_refused(template: Any, field: str, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule) as refused:
        check_request(JobRequest, {"command": ["true"], "pod_template": template})
    assert refused.value.field == field


def test_equal_templates_are_one_text() -> None:
    first = {"spec": {"hostNetwork": True, "containers": [{"name": "logs", "command": ["tail"]}, {"name": "worker"}]}}
    second = {"spec": {"containers": first["spec"]["containers"], "hostNetwork": True}}
    specs = {
        check_request(JobRequest, {"command": ["true"], "pod_template": template}).spec().pod_template
        for template in (first, second)
    }
    assert specs == {
        '{"spec":{"containers":[{"command":["tail"],"name":"logs"},{"name":"worker"}],"hostNetwork":true}}'
    }
