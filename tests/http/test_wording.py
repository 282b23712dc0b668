"""A broken rule of a request is told in plain words, with the value that breaks it unless that may be a secret."""

import json
from typing import Any

import pytest

from scheduler.errors import InvalidInput
from scheduler.http.schemas.requests import JobRequest, parse_request


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"min_workers": 0}, "min_workers: must be at least 1, not 0"),
        ({"priority": 10**12}, "priority: must be at most 1000000, not 1000000000000"),
        ({"max_workers": "many"}, "max_workers: must be an integer, not 'many'"),
        ({"workers": 1.5}, "workers: must be an integer, not 1.5"),
        ({"grace_seconds": "long"}, "grace_seconds: must be a number, not 'long'"),
        ({"preemptible": "maybe"}, "preemptible: must be true, false or surplus, not 'maybe'"),
        ({"runtime": "mpi"}, "runtime: must be 'command', 'elastic', 'torchrun' or 'horovod', not 'mpi'"),
        ({"name": "x" * 300}, "name: must have at most 128 characters"),
        ({"name": ""}, "name: must not be empty"),
        ({"name": "a\nb"}, "name: must not contain control characters, not 'a\\nb'"),
        ({"workdir": "data"}, "workdir: must be an absolute path, not 'data'"),
        ({"command": []}, "command: must not be empty"),
        ({"env": 3}, "env: must be a mapping"),
        ({"env": {"KEY": 5}}, "env.KEY: must be a string"),
        ({"gpus": 2}, "gpus: unknown field"),
        ({"data": {"epochs": 2}}, "data.shards: is required"),
    ],
)
def test_a_broken_rule_is_told_with_the_value(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_request(JobRequest, json.dumps({"command": ["true"], **fields}).encode())
    assert str(refused.value) == told
