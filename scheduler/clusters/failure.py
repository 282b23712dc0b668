"""An action that failed in a way that nobody has foreseen: its own failure, and never that of the actions beside it."""

import structlog

from scheduler.engine.ports import ActionFailure, ClusterAction

log = structlog.get_logger(__name__)


def unexpected_failure(action: ClusterAction, error: Exception) -> ActionFailure:
    """The failure as users are told of it; the log has the traceback."""
    log.error("a worker action failed unexpectedly", worker=action.worker_id, exc_info=error)
    return ActionFailure(action, " ".join(f"{type(action).__name__}: {type(error).__name__}: {error}".split())[:400])
