"""Client keys: a job that is submitted again under the same key is stored once. Those of the daemon are its own."""

_RUNS = "recurring:"
_TRAINING_JOBS = "trainingjob/"


def run_key(recurring_id: int, due: float) -> str:
    """The key of a recurring job's run: it names its time."""
    return f"{_RUNS}{recurring_id}:{due:.0f}"


def training_job_key(uid: str) -> str:
    """The key of a TrainingJob's job: an object of the same name that comes later has another."""
    return f"{_TRAINING_JOBS}{uid}"


def broken_key_rule(key: str | None) -> str | None:
    """What is wrong with a key that a user has chosen. One of the daemon's would keep that job from being submitted."""
    for prefix in (_RUNS, _TRAINING_JOBS):
        if key is not None and key.startswith(prefix):
            return f"must not begin with {prefix}, which is for keys of the scheduler"
    return None
