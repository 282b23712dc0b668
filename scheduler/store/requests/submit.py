"""Users' requests: new jobs and intents, stored for the next tick."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, bindparam, select

from scheduler.errors import Conflict, InvalidInput
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import JobSpec
from scheduler.store.codec.job_rows import submitted_values
from scheduler.store.codec.rows import event_values, intent_values
from scheduler.store.codec.shard_rows import new_queue_values
from scheduler.store.records import Submitted
from scheduler.store.requests import queues
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.engine_tables import counters, jobs
from scheduler.store.sql.sequences import take_ids

#: Client keys looked up by one query; both databases limit the number of parameters.
KEYS_PER_QUERY = 1000
#: Random bytes of a job's nonce; twice as many characters of it are part of the names of pods, which are limited.
NONCE_BYTES = 5

_KNOWN_KEYS = select(jobs.c.client_key, jobs.c.id, jobs.c.user_name).where(
    jobs.c.client_key.in_(bindparam("keys", expanding=True))
)
_LOCK_COUNTERS = select(counters.c.id).with_for_update()


def submit(
    connection: Connection,
    statements: Statements,
    specs: Sequence[JobSpec],
    now: float,
    random_bytes: Callable[[int], bytes],
) -> list[Submitted]:
    """Store the jobs whose client key is new, each with its nonce, SUBMIT intent and event.

    Raises `Conflict` for a key of another user's job, `InvalidInput` for a queue that does not exist, and
    `LimitReached` for one that takes no more jobs.
    """
    if any(spec.client_key is not None for spec in specs):
        # Whoever inserts the same keys at the same time has to wait, and will then see what was inserted here.
        connection.execute(_LOCK_COUNTERS)
    known = known_keys(connection, specs)
    fresh = _first_of_each_key([spec for spec in specs if spec.client_key is None or spec.client_key not in known])
    if not fresh:
        return [Submitted(known[spec.client_key or ""], created=False) for spec in specs]
    first = take_ids(connection, jobs=len(fresh), intents=len(fresh), events=len(fresh))
    queues.admit(connection, fresh)
    nonces = random_bytes(NONCE_BYTES * len(fresh)).hex("-", NONCE_BYTES).split("-")
    job_rows, intent_rows, event_rows, queue_rows = [], [], [], []
    for number, spec in enumerate(fresh):
        job_id = JobId(first.job + number)
        job_rows.append(submitted_values(job_id, nonces[number], spec, now))
        intent_rows.append(intent_values(Intent(first.intent + number, IntentKind.SUBMIT, now, job_id)))
        if spec.data is not None:
            queue_rows.append(new_queue_values(job_id, spec.data))
        event_rows.append(event_values(first.event + number, Event(now, EventKind.JOB_SUBMITTED, job_id)))
    statements.insert_jobs.run(connection, job_rows)
    statements.insert_data_queues.run(connection, queue_rows)
    statements.insert_intents.run(connection, intent_rows)
    statements.insert_events.run(connection, event_rows)
    return _answers(specs, known, first.job)


def known_keys(connection: Connection, specs: Sequence[JobSpec]) -> dict[str, JobId]:
    """Jobs that were submitted before under one of the keys. Raises `Conflict` for one of another user."""
    users = {spec.client_key: spec.user for spec in specs if spec.client_key is not None}
    keys = list(users)
    known: dict[str, JobId] = {}
    for start in range(0, len(keys), KEYS_PER_QUERY):
        rows = connection.execute(_KNOWN_KEYS, {"keys": keys[start : start + KEYS_PER_QUERY]})
        for row in rows:
            if row.user_name and users[row.client_key] not in ("", row.user_name):
                raise Conflict(
                    f"client_key {row.client_key!r} belongs to job {row.id} of {row.user_name}: use a new one"
                )
            known[row.client_key] = JobId(row.id)
    return known


def _first_of_each_key(specs: Sequence[JobSpec]) -> list[JobSpec]:
    seen: set[str] = set()
    first = []
    for spec in specs:
        if spec.client_key is None:
            first.append(spec)
        elif spec.client_key not in seen:
            seen.add(spec.client_key)
            first.append(spec)
    return first


def _answers(specs: Sequence[JobSpec], known: dict[str, JobId], next_id: int) -> list[Submitted]:
    """The job of each spec; new ones were given ids from `next_id` on, in this order."""
    answers = []
    for spec in specs:
        job_id = None if spec.client_key is None else known.get(spec.client_key)
        answers.append(Submitted(JobId(next_id) if job_id is None else job_id, created=job_id is None))
        if job_id is None:
            if spec.client_key is not None:
                known[spec.client_key] = JobId(next_id)
            next_id += 1
    return answers


def add_intents(connection: Connection, statements: Statements, intents: Sequence[Intent]) -> list[int]:
    """Store the intents under new ids, which are returned."""
    for intent in intents:
        _check_intent(intent)
    first = take_ids(connection, intents=len(intents)).intent
    ids = list(range(first, first + len(intents)))
    rows = [{**intent_values(intent), "id": number} for intent, number in zip(intents, ids, strict=True)]
    statements.insert_intents.run(connection, rows)
    return ids


def _check_intent(intent: Intent) -> None:
    """Raise `InvalidInput` for what the table's constraints would refuse."""
    if intent.kind is IntentKind.SUBMIT:
        raise InvalidInput("kind", "SUBMIT comes with a job: use submit")
    if intent.kind is IntentKind.QUEUE:
        raise InvalidInput("kind", "QUEUE comes with a change of the queue: use set_queue")
    about = intent.kind.about
    if getattr(intent, about) is None:
        raise InvalidInput(about, f"{intent.kind} needs one")
    for other in {"job_id", "node", "booking", "queue"} - {about}:
        if getattr(intent, other) is not None:
            raise InvalidInput(other, f"{intent.kind} takes none")
    if (intent.priority is not None) != (intent.kind is IntentKind.PRIORITY):
        raise InvalidInput("priority", "must be given with PRIORITY, and only with it")
    bounded = intent.min_workers is not None or intent.max_workers is not None
    if bounded != (intent.kind is IntentKind.SCALE):
        raise InvalidInput("min_workers", "min_workers or max_workers must be given with SCALE, and only with it")
