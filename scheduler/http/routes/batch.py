"""Batches of jobs, read job by job: parsing a large body in one call would block every other thread."""

import re
from collections.abc import Iterator

from scheduler.config import HttpSettings
from scheduler.errors import InvalidInput
from scheduler.http.errors import ErrorCode, Refusal
from scheduler.http.json import parse_json
from scheduler.http.schemas.requests import JobRequest, check_request
from scheduler.model.job import JobSpec

_OPENING = re.compile(rb'\s*\{\s*"jobs"\s*:\s*\[\s*')
_CLOSING = re.compile(rb"\s*\]\s*\}\s*")
_BETWEEN = re.compile(rb"\s*,\s*")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_BESIDE = rb'[^"{}\[\]]++'
_INNERMOST = rb"[{\[](?:%b|%b)*+[}\]]" % (_BESIDE, _STRING)
_INNER = rb"[{\[](?:%b|%b|%b)*+[}\]]" % (_BESIDE, _STRING, _INNERMOST)
#: A whole object that contains at most two levels, as most jobs are: ten times as quick as bracket by bracket.
_SHALLOW = re.compile(rb"\{(?:%b|%b|%b)*+\}" % (_BESIDE, _STRING, _INNER), re.DOTALL)
#: Brackets, braces, and strings, whose own brackets do not count. An unterminated string reaches to the last byte.
_STRUCTURE = re.compile(rb'[{}\[\]]|"(?:[^"\\]+|\\(?:.|\Z))*+(?:"|\Z)', re.DOTALL)


def parse_batch(body: bytes, settings: HttpSettings) -> list[JobSpec]:
    """The jobs of a batch. Raises `InvalidInput`, and `Refusal` (413) for a job that is too large."""
    opening = _OPENING.match(body)
    if opening is None:
        raise _not_a_batch()
    jobs_max = settings.jobs_per_batch_max
    specs: list[JobSpec] = []
    for start, end in _jobs(body, opening.end(), settings.job_bytes_max):
        if len(specs) == jobs_max:
            raise InvalidInput("jobs", f"must contain 1 to {jobs_max} jobs, not more")
        job = parse_json(body[start:end])
        specs.append(check_request(JobRequest, job, ("jobs", len(specs))).spec())
    if not specs:
        raise InvalidInput("jobs", f"must contain 1 to {jobs_max} jobs, not 0")
    return specs


def _jobs(body: bytes, at: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Start and end of each job. Raises `InvalidInput` if the body is not an object with a list of objects."""
    closing = _CLOSING.fullmatch(body, at)
    number = 0
    while closing is None:
        end = _end_of_object(body, at, bytes_max, number)
        yield at, end
        number += 1
        closing = _CLOSING.fullmatch(body, end)
        between = _BETWEEN.match(body, end)
        if closing is None and between is None:
            raise _not_a_batch()
        at = between.end() if between is not None else end


def _end_of_object(body: bytes, start: int, bytes_max: int, number: int) -> int:
    """The end of the object that begins there; the parser judges its content."""
    if body[start : start + 1] != b"{":
        raise InvalidInput(f"jobs.{number}", "must be a mapping of fields")
    limit = start + bytes_max + 1
    if (shallow := _SHALLOW.match(body, start, limit)) is not None:
        return shallow.end()
    depth = 0
    for found in _STRUCTURE.finditer(body, start, limit):
        if found[0] in b"{[":
            depth += 1
        elif found[0] in b"}]":
            depth -= 1
        if depth == 0:
            return found.end()
    if len(body) - start > bytes_max:
        raise Refusal(413, ErrorCode.TOO_LARGE, f"jobs.{number} exceeds {bytes_max} bytes", field=f"jobs.{number}")
    raise InvalidInput("body", f"not valid JSON: jobs.{number} has no end")


def _not_a_batch() -> InvalidInput:
    return InvalidInput("jobs", 'the body must be {"jobs": [...]}')
