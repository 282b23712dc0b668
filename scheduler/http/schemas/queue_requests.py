"""Requests about queues."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from scheduler.config.numbers import Budget, JobsOfQueue, Priority, SlotsOfQueue, Weight
from scheduler.errors import InvalidInput
from scheduler.http.schemas.fields import (
    PLAIN,
    PRINTABLE,
    BrokenRule,
    GpuType,
    QueuePath,
    Request,
    broken_user_name,
)
from scheduler.model.queue import Queue, SlotsByType
from scheduler.model.queue_tree import GROUP_PREFIX

#: Most GPU types that one queue names, and most users and groups.
TYPES_MAX = 64
MEMBERS_MAX = 1000


def _member(member: str) -> str:
    """Raises `ValueError` for what names neither a user nor a group; names of groups may have spaces inside."""
    group = member.removeprefix(GROUP_PREFIX)
    fine = group.strip() == group != "" if member != group else broken_user_name(member) is None
    if not fine or group.startswith(GROUP_PREFIX):
        rule = f"must be the name of a user, without spaces and commas, or of a group after {GROUP_PREFIX}"
        raise ValueError(f"{rule}, not {member!r}")
    return member


#: Who is a member already, whatever is a name today.
FormerMember = Annotated[str, StringConstraints(min_length=1, max_length=129, pattern=PLAIN), PRINTABLE]
Member = Annotated[FormerMember, AfterValidator(_member)]
Members = Annotated[list[Member], Field(max_length=MEMBERS_MAX)]
#: The type `*` stands for slots of any.
SlotsOfTypes = Annotated[dict[GpuType, SlotsOfQueue], Field(max_length=TYPES_MAX)]
ChangedSlots = Annotated[dict[GpuType, SlotsOfQueue | None], Field(max_length=TYPES_MAX)]


class QueueFields(Request):
    """A queue without its path. GPU type `*` stands for slots of any type."""

    #: Slots, by GPU type, that its jobs get back from borrowers whenever they need them.
    guarantee: SlotsOfTypes = Field(default_factory=dict)
    #: Slots, by GPU type, that its jobs never exceed together; a type that is not named is not limited.
    limit: SlotsOfTypes = Field(default_factory=dict)
    #: Its part of what is lent, against that of the queues beside it.
    weight: Weight = 1.0
    #: Whether what the queue has is divided among its users.
    share_users: bool = False
    #: Slots that one user may hold in it; null: up to the queue's own limit.
    user_limit: SlotsOfQueue | None = None
    #: Highest priority that its jobs may have; null: any.
    priority_max: Priority | None = None
    #: Most jobs that it may contain before they end; null: any number.
    max_jobs: JobsOfQueue | None = None
    #: Slot-hours that its jobs, with those of inner queues, may hold in a calendar month (UTC); null: any number.
    budget: Budget | None = None
    #: Users, and groups as `@name`, who may submit to it and to the queues inside it; empty: as its parent says.
    members: Members = Field(default_factory=list)

    @property
    def gpu_types(self) -> set[str]:
        """The types of which slots are guaranteed or limited."""
        return {*self.guarantee, *self.limit}

    def queue(self, path: str, created_at: float) -> Queue:
        """Raises `InvalidInput` where fields contradict each other."""
        queue = Queue(
            path=path,
            created_at=created_at,
            guarantee=slots_by_type(self.guarantee),
            limit=slots_by_type(self.limit),
            weight=self.weight,
            share_users=self.share_users,
            user_limit=self.user_limit,
            priority_max=self.priority_max,
            max_jobs=self.max_jobs,
            budget=self.budget,
            members=_different(self.members),
        )
        queue.check_guarantee()
        return queue


class QueueRequest(QueueFields):
    """A queue to create."""

    #: Its names from the first level down, joined by slashes: `lab/vision`. The outer queue must exist.
    path: QueuePath


class QueueChangeRequest(Request):
    """New values of a queue; omitted fields stay, and null puts a field back to its default."""

    #: By GPU type; omitted types stay, null removes one.
    guarantee: ChangedSlots | None = None
    #: By GPU type; omitted types stay, null removes one.
    limit: ChangedSlots | None = None
    #: Null: 1.
    weight: Weight | None = None
    #: Null: false.
    share_users: bool | None = None
    #: Null: up to the queue's own limit.
    user_limit: SlotsOfQueue | None = None
    #: Null: any.
    priority_max: Priority | None = None
    #: Null: any number.
    max_jobs: JobsOfQueue | None = None
    #: Null: any number.
    budget: Budget | None = None
    #: All of them; null: as its parent says.
    members: Members | None = None
    #: Members to add to those that there are by then; who is one already stays one.
    add_members: Members = Field(default_factory=list)
    #: Members to remove from those that there are by then; each has to be one.
    remove_members: Annotated[list[FormerMember], Field(max_length=MEMBERS_MAX)] = Field(default_factory=list)

    def broken_rule(self) -> BrokenRule | None:
        if not self.model_fields_set:
            return "body", "must contain at least one field"
        if "members" in self.model_fields_set and (self.add_members or self.remove_members):
            return "members", "must not be given together with add_members or remove_members"
        if both := set(self.add_members).intersection(self.remove_members):
            return "remove_members", f"must not name {min(both)}, who is to be added as well"
        return None

    @property
    def gpu_types(self) -> set[str]:
        """The types of which slots are guaranteed or limited anew."""
        slots = [*(self.guarantee or {}).items(), *(self.limit or {}).items()]
        return {kind for kind, count in slots if count is not None}

    def changed(self, queue: Queue) -> Queue:
        """The queue with these values. Raises `InvalidInput` where fields contradict each other."""
        own = self.model_fields_set - {"add_members", "remove_members"}
        given: dict[str, Any] = {name: getattr(self, name) for name in own}
        for name in ("guarantee", "limit"):
            if name in given:
                given[name] = _merged(name, getattr(queue, name), given[name])
        if "members" in given:
            given["members"] = _different(given["members"] or ())
        elif self.add_members or self.remove_members:
            given["members"] = self._changed_members(queue)
        base = Queue(queue.path, queue.created_at)
        given = {name: getattr(base, name) if value is None else value for name, value in given.items()}
        fields = {name: getattr(queue, name) for name in Queue.__slots__}
        return self._fitting({**fields, **given})

    def _fitting(self, fields: Mapping[str, Any]) -> Queue:
        """The queue, whose guarantee and limit fit each other; the one that is given is named where they do not."""
        try:
            queue = Queue(**fields)
            if not self.model_fields_set.isdisjoint(("guarantee", "limit")):
                queue.check_guarantee()
        except InvalidInput as error:
            given = error.field in self.model_fields_set
            raise InvalidInput(error.field if given else "limit", error.rule) from None
        return queue

    def _changed_members(self, queue: Queue) -> tuple[str, ...]:
        for name in self.remove_members:
            if name not in queue.members:
                raise InvalidInput("remove_members", f"{name} is not a member of {queue.path}")
        members = _different({*queue.members, *self.add_members}.difference(self.remove_members))
        if len(members) > MEMBERS_MAX:
            raise InvalidInput("add_members", f"there may be at most {MEMBERS_MAX} members, not {len(members)}")
        return members


def slots_by_type(slots: dict[str, int]) -> SlotsByType:
    return tuple(sorted(slots.items()))


def _merged(field: str, before: SlotsByType, given: dict[str, int | None] | None) -> SlotsByType:
    if given is None:
        return ()
    merged = {**dict(before), **given}
    if len(merged) > TYPES_MAX:
        raise InvalidInput(field, f"must name at most {TYPES_MAX} GPU types, not {len(merged)}")
    return slots_by_type({kind: count for kind, count in merged.items() if count is not None})


def _different(members: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(members)))
