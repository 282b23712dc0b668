"""Entry point: runs a training function on a group that may change under it. Imports torch."""

import os
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.elastic.environment import Environment, checkpoint_dir
from scheduler.elastic.errors import Resized, Stopped, UsageError
from scheduler.elastic.group.rendezvous_store import Meeting
from scheduler.elastic.membership.agent import Agent
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.quorum_runner import Agreement
from scheduler.elastic.membership.standalone import Alone
from scheduler.elastic.session import Options, Session
from scheduler.elastic.state import State
from scheduler.elastic.training.arguments import amount, shown
from scheduler.elastic.training.checkpoint import CheckpointDirectory

Result = TypeVar("Result")


def run(
    train: Callable[[State], Result],
    state: State,
    *,
    group_timeout_seconds: float = 60.0,
    checkpoint_every_seconds: float | None = None,
    quorum_after_seconds: float | None = 5.0,
    step_timeout_seconds: float | None = None,
    on_reset: Callable[[State], None] | None = None,
) -> Result:
    """Runs `train(state)` to its end, whatever happens to the number of workers meanwhile.

    `train` is called again each time the group has changed; everything it needs from before is in the state, where
    `State.epochs` and `State.batches` go on from. At that moment torch's default process group is that of the new
    generation, so collectives of the script's own and `DistributedDataParallel(model)` made inside `train` just work.

    Call it last, with data and model loaded: from here on the worker counts as ready.

    Without a scheduler (no SCHED_URL) this is one process without network, or torchrun's fixed group.

    Args:
        train: the training function; it must do the same collectives on all ranks.
        state: what survives.
        group_timeout_seconds: bound on any one collective, and so on how far apart ranks may be (while one evaluates
            alone, say). A death is noticed at once, save where gloo loses it in a collective of the script's own.
        checkpoint_every_seconds: rank 0 also writes a checkpoint this often, at a commit; None for only when the job is
            stopped. Goes to SCHED_CHECKPOINT_DIR.
        quorum_after_seconds: if a worker is lost and the scheduler has answered no worker for this long, more than half
            of the generation's workers go on without it; None for waiting until the scheduler is back.
        step_timeout_seconds: a worker that takes longer from one commit to the next hangs, and fails with the stack of
            each thread in its log; None for any time. It must be longer than the longest step with all that the script
            does besides between two commits: the compilation of the first, an evaluation, a wait for data.
        on_reset: called after each change of the group, before `train`.
    Returns:
        what `train` returned. A worker that is asked to leave does not return: it exits with status 64.
    """
    _require_arguments(train, state)
    options = Options(
        amount("group_timeout_seconds", group_timeout_seconds),
        _seconds_or_none("checkpoint_every_seconds", checkpoint_every_seconds, zero=True),
        _seconds_or_none("quorum_after_seconds", quorum_after_seconds, zero=True),
        _seconds_or_none("step_timeout_seconds", step_timeout_seconds),
    )
    session = _connect(state, options)
    try:
        return _train(session, train, state, on_reset)
    finally:
        session.close()


def _train(
    session: Session,
    train: Callable[[State], Result],
    state: State,
    on_reset: Callable[[State], None] | None,
) -> Result:
    """Trains to the end, in one group after the other."""
    membership: Membership | None = None
    while True:
        session.join(membership)
        membership = None
        try:
            if on_reset is not None:
                on_reset(state)
            result = train(state)
            session.finish()
            return result
        except Resized as resized:
            membership = resized.membership
            session.leave_group()
            traceback.clear_frames(resized.__traceback__)
        except Stopped:
            session.stop()
        except Exception as error:
            if not session.survives(error):
                raise
            # The frames of the failed step refer to its collectives, which keep the group's connections open.
            traceback.clear_frames(error.__traceback__)
        if membership is None:
            session.abandon()


def _require_arguments(train: Any, state: Any) -> None:
    if not callable(train) or not isinstance(state, State):
        raise UsageError(f"run(train, state) takes a function and a State, not {shown(train)} and {shown(state)}")


def _seconds_or_none(name: str, value: float | None, zero: bool = False) -> float | None:
    return None if value is None else amount(f"{name}, unless it is None,", value, zero=zero, endless=True)


def _connect(state: State, options: Options) -> Session:
    environment = Environment.read(os.environ)
    directory = checkpoint_dir(os.environ)
    job = environment.job_key if environment is not None else None
    checkpoints = CheckpointDirectory(directory, job) if directory is not None else None
    if environment is None:
        alone = Alone(os.environ)
        alone.start()
        return Session(alone, None, checkpoints, state, options)
    address = environment.own_address()
    meeting = Meeting(address, environment.token, frozenset({environment.port}))
    agent = Agent(environment, meeting.endpoint)
    if options.quorum_after_seconds is not None:
        Agreement(agent, address, options.quorum_after_seconds).start()
    agent.start()
    return Session(agent, meeting, checkpoints, state, options)
