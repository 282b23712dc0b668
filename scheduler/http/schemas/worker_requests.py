"""What workers may send: every field with its limits, unknown ones refused."""

from typing import Annotated

from pydantic import Field, StringConstraints

from scheduler.config.numbers import Efficiency, Fraction, Metric, Moment, Rate, Seconds
from scheduler.http.schemas.fields import PLAIN, Label, Request
from scheduler.http.schemas.requests import POSITION_MAX
from scheduler.model.data_queue import HELD_MAX
from scheduler.model.ids import WorkerId
from scheduler.model.observation import Agreed, Missed

HostAndPort = Annotated[str, StringConstraints(max_length=300, pattern=r"^[A-Za-z0-9._-]+:[0-9]{1,5}$")]
#: Of a worker: its job's and its ordinal.
WorkerName = Annotated[str, StringConstraints(max_length=40, pattern=r"^[0-9]+-[0-9]+$")]


class AgreedRequest(Request):
    """What a majority of a generation's workers agreed on while they heard from no scheduler."""

    #: The generation that the scheduler published.
    generation: int = Field(ge=1, le=2**62)
    #: Number of the agreement within this generation, from 1.
    sub: int = Field(ge=1, le=2**31)
    #: Members of the generation without whom the others go on.
    lost: Annotated[list[WorkerName], Field(min_length=1, max_length=100_000)]

    def agreed(self) -> Agreed:
        return Agreed(self.generation, self.sub, tuple(WorkerId(worker) for worker in self.lost))


class MissedRequest(Request):
    """Members that do not come to the group of their generation, for which this worker has waited so long."""

    #: The generation whose group it wants to join.
    generation: int = Field(ge=1, le=2**62)
    #: Ids of the workers that it waits for.
    workers: Annotated[list[WorkerName], Field(min_length=1, max_length=100_000)]
    #: For how long it has waited.
    seconds: Seconds

    def missed(self) -> Missed:
        return Missed(self.generation, tuple(WorkerId(worker) for worker in self.workers), self.seconds)


class ReportRequest(Request):
    """What a worker says about itself; it repeats all of it every heartbeat."""

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
    #: Whom it waits for in vain; the scheduler kills and replaces these.
    missed: MissedRequest | None = None
    #: Steps done.
    step: int | None = Field(default=None, ge=0, le=2**62)
    #: Epoch that is being worked at.
    epoch: int | None = Field(default=None, ge=0, le=2**62)
    #: Of the whole job at its present size.
    samples_per_second: Rate | None = None
    #: When it committed last; unix seconds.
    last_commit_at: Moment | None = None
    #: How long ago a file in the job's directory for checkpoints was written last, where the worker watches that.
    checkpoint_seconds_ago: Seconds | None = None
    #: Pause of the last resize.
    resize_seconds: Seconds | None = None
    #: Share of the whole job that is done.
    fraction: Fraction | None = None
    #: Progress per sample at the present batch size, against the best batch size.
    efficiency: Efficiency | None = None
    #: Numbers for people, by name.
    metrics: Annotated[dict[Label, Metric], Field(max_length=16)] = Field(default_factory=dict)


#: A position of the data: its epoch times the number of shards, and its place in the epoch.
Position = Annotated[int, Field(ge=0, le=POSITION_MAX)]
Spans = Annotated[list[Annotated[list[Position], Field(min_length=2, max_length=2)]], Field(max_length=HELD_MAX)]


class ShardsRequest(Request):
    """What a reader of shards says: what it is done with, and how many it wants to hold. Positions as [first, end)."""

    #: Name of the process, which numbers its calls; a worker may have several.
    reader: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
    #: Greater than that of its last call; the same again repeats it and changes nothing.
    sequence: int = Field(ge=1, le=2**62)
    #: Positions that are done, as spans [first, end).
    done: Spans = Field(default_factory=list)
    #: Positions that failed, as spans [first, end).
    failed: Spans = Field(default_factory=list)
    #: Positions that it gives back untouched, as spans [first, end).
    returned: Spans = Field(default_factory=list)
    #: How many it wants to hold in all; fewer are given where fewer are left, and never more than 10,000.
    want: int = Field(default=0, ge=0, le=10**6)
    #: Why shards failed.
    detail: Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)] = ""
