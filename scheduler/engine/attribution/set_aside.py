"""Holds the subjects that make ticks fail: as changes to commit, and as a tick that goes on without them."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.engine.attribution.failure import Failure
from scheduler.engine.attribution.inputs import with_plain_node, without_held
from scheduler.engine.ports import Inbox, TickInputs
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Cause, Event, EventKind
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import Changes, World


def tried_without(inputs: TickInputs, left_out: Collection[Subject]) -> TickInputs:
    """As `set_aside`, on trial. A node is made plain instead: without it, nothing would be decided at all.

    So a node is found to be the culprit only by its own properties, not by requests for it.
    """
    for subject in left_out:
        if subject.kind is SubjectKind.NODE:
            inputs = with_plain_node(inputs, NodeName(subject.name))
    untold = Failure(Cause.TICK_RAISED, "")
    return set_aside(inputs, {each: untold for each in left_out if each.kind is not SubjectKind.NODE})


def set_aside(inputs: TickInputs, culprits: Mapping[Subject, Failure]) -> TickInputs:
    """The tick without the culprits; it begins with the changes that keep them held."""
    if not culprits:
        return without_held(inputs)
    found = {kind: {s.name: failure for s, failure in culprits.items() if s.kind is kind} for kind in SubjectKind}
    failures, names = found[SubjectKind.JOB], found[SubjectKind.BOOKING]
    stored = (*inputs.world.all_jobs(), *inputs.unloaded.values())
    jobs = tuple(hold(job, failures[str(job.id)]) for job in stored if str(job.id) in failures)
    again = {str(job_id) for job_id in inputs.world.held} & set(failures)
    refused = [intent for intent in inputs.inbox.intents if intent.booking in names or _resumes(intent, failures)]
    inbox = _inbox_without(inputs.inbox, refused, failures, names)
    known = {str(job.id) for job in (*jobs, *inbox.jobs)} | again
    aside = {s for s in culprits if s.kind is SubjectKind.POD or (s.kind is SubjectKind.JOB and s.name not in known)}
    changes = Changes(
        jobs,
        nodes=tuple(_held_node(inputs, NodeName(name), why) for name, why in found[SubjectKind.NODE].items()),
        events=(
            *(_refusal(intent, failures, inputs.now) for intent in refused if intent.job_id is not None),
            *(_event(s, why, inputs, s in aside) for s, why in culprits.items() if s.name not in again),
        ),
        intents_done=tuple(intent.id for intent in refused),
        bookings=tuple(replace(booking, state=BookingState.OVER) for booking in _bookings(inputs, names)),
    )
    world = _without_seen(inputs.world.evolve(changes), found)
    world = world.with_withheld({**world.withheld, **{subject: culprits[subject].detail for subject in aside}})
    return without_held(replace(inputs, world=world, inbox=inbox, unloaded={}, begun=changes))


def hold(job: Job, failure: Failure) -> Job:
    """The job in the held state, with its workers as they were."""
    return replace(
        job.unreserved(),
        state=JobState.HELD,
        held_from=job.state,
        wait_reason=None,
        wait_for=None,
        detail=failure.detail,
    )


def _held_node(inputs: TickInputs, name: NodeName, failure: Failure) -> Node:
    """The node without capacity, and without anything at which a tick could fail again."""
    before, seen = inputs.world.nodes.get(name), inputs.observation.nodes.get(name)
    host = str(before.host if before is not None else seen.host if seen is not None else name)
    version = before.version if before is not None else 0
    return Node(name, host, 0, closed=f"held: {failure.detail}", intent=NodeIntent.HELD, version=version)


def _bookings(inputs: TickInputs, names: Collection[str]) -> list[Booking]:
    found = {booking.name: booking for booking in (*inputs.inbox.bookings, *inputs.world.bookings.values())}
    return [found[name] for name in names if name in found]


def _resumes(intent: Intent, jobs: Collection[str]) -> bool:
    """Whether the intent asks one of these jobs, at which ticks fail, to go on."""
    return intent.kind is IntentKind.RESUME and str(intent.job_id) in jobs


def _refusal(intent: Intent, failures: Mapping[str, Failure], now: float) -> Event:
    detail = f"the scheduler fails at it: {failures[str(intent.job_id)].detail}"
    return Event(now, EventKind.REQUEST_REFUSED, intent.job_id, cause=intent.kind, detail=detail)


def _inbox_without(
    inbox: Inbox, refused: Collection[Intent], failures: Mapping[str, Failure], bookings: Collection[str]
) -> Inbox:
    """The inbox with culprit jobs as held ones, and without refused requests."""
    return Inbox(
        tuple(intent for intent in inbox.intents if intent not in refused),
        tuple(hold(job, failures[str(job.id)]) if str(job.id) in failures else job for job in inbox.jobs),
        tuple(booking for booking in inbox.bookings if booking.name not in bookings),
        inbox.unreadable,
        inbox.queues,
    )


def _without_seen(world: World, found: Mapping[SubjectKind, Collection[str]]) -> World:
    """The world without earlier observations of these nodes and pods."""
    nodes, pods = found[SubjectKind.NODE], found[SubjectKind.POD]
    world = world.with_crowded({name: slots for name, slots in world.crowded.items() if name not in nodes})
    foreign = {name: use for name, use in world.foreign.items() if name not in nodes}
    return world.with_foreign(foreign, tuple(each for each in world.demands if each.demand.name not in pods))


def _event(subject: Subject, failure: Failure, inputs: TickInputs, aside: bool) -> Event:
    """An event on the failure; `aside`: nothing is stored of the subject."""
    now = inputs.now
    if aside:
        named = f"{'workers of ' if subject.kind is SubjectKind.JOB else ''}{subject}"
        return Event(now, EventKind.WITHHELD, cause=failure.cause, detail=f"{named}: {failure.detail}")
    if subject.kind is SubjectKind.JOB:
        return Event(now, EventKind.JOB_HELD, JobId(int(subject.name)), cause=failure.cause, detail=failure.detail)
    if subject.kind is SubjectKind.NODE:
        name = NodeName(subject.name)
        before = inputs.world.nodes.get(name)
        slots = float(before.slots) if before is not None and before.health is NodeHealth.UP else 0.0
        return Event(now, EventKind.NODE_HELD, node=name, cause=failure.cause, detail=failure.detail, amount=slots)
    detail = f"{subject.name}: {failure.detail}"
    return Event(now, EventKind.BOOKING_CANCELLED, cause=failure.cause, detail=detail)
