"""Requests of workers: every field with its limits; unknown fields are refused."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from scheduler.config.numbers import Efficiency, Fraction, Metric, Moment, Rate, Seconds
from scheduler.http.schemas.fields import PLAIN, Label, Request
from scheduler.http.schemas.requests import POSITION_MAX
from scheduler.model.ids import WorkerId
from scheduler.model.observation import Agreed, Missed


def _with_port(place: str) -> str:
    port = int(place.rpartition(":")[2])
    if not 1 <= port <= PORT_MAX:
        raise ValueError(f"the port must be from 1 to {PORT_MAX}, not {port}")
    return place


PORT_MAX = 65_535
HostAndPort = Annotated[
    str, StringConstraints(max_length=300, pattern=r"^[A-Za-z0-9._-]+:[0-9]{1,5}$"), AfterValidator(_with_port)
]
#: Id of a worker: its job's id and its ordinal.
WorkerName = Annotated[str, StringConstraints(max_length=40, pattern=r"^[0-9]+-[0-9]+$")]


class AgreedRequest(Request):
    """An agreement of a majority of a generation's workers while the scheduler was unreachable."""

    #: The generation that the scheduler published.
    generation: int = Field(ge=1, le=2**62)
    #: Number of the agreement within this generation, from 1.
    sub: int = Field(ge=1, le=2**31)
    #: Members of the generation without whom the others go on.
    lost: Annotated[list[WorkerName], Field(min_length=1, max_length=100_000)]

    def agreed(self) -> Agreed:
        return Agreed(self.generation, self.sub, tuple(WorkerId(worker) for worker in self.lost))


class MissedRequest(Request):
    """Members that have not joined the group of their generation while this worker waits for them."""

    #: The generation whose group it wants to join.
    generation: int = Field(ge=1, le=2**62)
    #: Ids of the workers that it waits for.
    workers: Annotated[list[WorkerName], Field(min_length=1, max_length=100_000)]
    #: For how long it has waited.
    seconds: Seconds

    def missed(self) -> Missed:
        return Missed(self.generation, tuple(WorkerId(worker) for worker in self.workers), self.seconds)


class ReportRequest(Request):
    """A worker's report about itself, repeated in full at every heartbeat."""

    #: The generation it is a member of; 0: standby.
    generation: int = Field(default=0, ge=0, le=2**62)
    #: Whether imports and device initialisation are done.
    ready: bool = False
    #: Where its rendezvous store listens.
    endpoint: HostAndPort | None = None
    #: Where it answers the job's other workers.
    peer: HostAndPort | None = None
    #: The last agreement that it took part in.
    agreed: AgreedRequest | None = None
    #: Members that it has waited for too long; the scheduler kills and replaces them.
    missed: MissedRequest | None = None
    #: Steps done.
    step: int | None = Field(default=None, ge=0, le=2**62)
    #: Current epoch.
    epoch: int | None = Field(default=None, ge=0, le=2**62)
    #: Samples per second of the whole job at its present size.
    samples_per_second: Rate | None = None
    #: When it committed last; unix seconds.
    last_commit_at: Moment | None = None
    #: Age of the newest file in the job's checkpoint directory, if the worker watches it.
    checkpoint_seconds_ago: Seconds | None = None
    #: Pause of the last resize.
    resize_seconds: Seconds | None = None
    #: Share of the whole job that is done.
    fraction: Fraction | None = None
    #: Progress per sample at the present batch size, against the best batch size.
    efficiency: Efficiency | None = None
    #: Metrics of the script, by name.
    metrics: Annotated[dict[Label, Metric], Field(max_length=16)] = Field(default_factory=dict)


#: Spans of a list in a call for shards.
SPANS_MAX = 1_000
#: A position of the data: its epoch times the number of shards, and its place in the epoch.
Position = Annotated[int, Field(ge=0, le=POSITION_MAX)]
Spans = Annotated[list[Annotated[list[Position], Field(min_length=2, max_length=2)]], Field(max_length=SPANS_MAX)]


class ShardsRequest(Request):
    """A reader's call for shards: those that it is done with, and the number that it wants to hold."""

    #: Name of the process, which numbers its calls; a worker may have several.
    reader: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
    #: Number of the call, greater than that of the last one; a repeated number repeats that call and changes nothing.
    sequence: int = Field(ge=1, le=2**62)
    #: Positions that are done, as spans [first, end).
    done: Spans = Field(default_factory=list)
    #: Positions that failed, as spans [first, end).
    failed: Spans = Field(default_factory=list)
    #: Positions that it gives back untouched, as spans [first, end).
    returned: Spans = Field(default_factory=list)
    #: Number of shards that it wants to hold in all, at most 10,000; fewer are given if fewer are left.
    want: int = Field(default=0, ge=0, le=10**6)
    #: Why shards failed.
    detail: Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)] = ""
