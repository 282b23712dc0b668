"""Carries out actions side by side: an error in one of them is that action's failure, never the tick's."""

import traceback
from collections.abc import Sequence
from pathlib import Path

from scheduler.engine.ports import ActionFailure, Cluster, ClusterAction, StartWorker
from scheduler.errors import ClusterError

_ERROR_LENGTH_MAX = 400


def carry_out(cluster: Cluster, actions: Sequence[ClusterAction], until: float) -> list[ActionFailure]:
    """Have the cluster carry out the actions; returns failed ones. Raises `ClusterError` if it cannot be asked."""
    try:
        return list(cluster.apply(actions, until))
    except ClusterError:
        raise
    except Exception:
        # Actions are idempotent: done one by one, all but the one that stumbles are done.
        return [failure for action in actions for failure in _alone(cluster, action, until)]


def unforeseen(action: ClusterAction, error: Exception) -> ActionFailure:
    """The failure of an action by an unexpected error. A start would meet it again, so it is given up."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(f"internal error: {type(error).__name__}: {error}".split())[:_ERROR_LENGTH_MAX]
    return ActionFailure(action, f"{text}{where}", final=isinstance(action, StartWorker))


def _alone(cluster: Cluster, action: ClusterAction, until: float) -> Sequence[ActionFailure]:
    try:
        return cluster.apply([action], until)
    except ClusterError as error:
        return [ActionFailure(action, str(error))]
    except Exception as error:
        return [unforeseen(action, error)]
