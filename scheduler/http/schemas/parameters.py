"""Path and query parameters with their limits."""

from typing import Annotated

from fastapi import Path, Query

from scheduler.errors import InvalidInput
from scheduler.http.schemas.fields import QueuePath

SQL_ID_MAX = 2**63 - 1
LINE = r"^[^\x00-\x1f\x7f]*$"

JobNumber = Annotated[int, Path(ge=1, le=SQL_ID_MAX, description="Id of the job.")]
NodePath = Annotated[str, Path(min_length=1, max_length=253, pattern=LINE, description="Name of the node.")]
WorkerPath = Annotated[
    str, Path(max_length=40, pattern=r"^[0-9]{1,18}-[0-9]{1,18}$", description="Id of the worker, such as 12-3.")
]
QueueParameter = Annotated[QueuePath, Path(description="Path of the queue, such as lab/vision.")]
QueueWithin = Annotated[
    QueuePath | None, Query(description="Only jobs of this queue and of the queues inside it, such as lab/vision.")
]
Limit = Annotated[
    int, Query(ge=1, le=SQL_ID_MAX, description="Maximum number of results; the server may return fewer.")
]
Wait = Annotated[
    float, Query(ge=0, le=60, allow_inf_nan=False, description="Wait up to this number of seconds for news.")
]


def split_label(text: str) -> tuple[str, str]:
    """`key=value`, as a filter. Raises `InvalidInput`."""
    key, equals, value = text.partition("=")
    if not equals or not key or "\0" in text:
        raise InvalidInput("label", f"must be key=value, not {text[:100]!r}")
    return key, value
