"""Who may call which route: the one table. A route of users that is missing in it is for administrators only."""

from dataclasses import dataclass

from scheduler.model.identity import Role


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may call a route."""

    #: The least role that it needs; None: anyone may call it.
    role: Role | None
    #: Whether callers below operators may change only what belongs to them.
    own: bool = False
    #: Whether a call that is no GET changes something, so that it is recorded.
    changes: bool = True
    #: Whether the workers of the job may call it with their token.
    workers: bool = False
    #: Whether Prometheus may call it with `http.metrics_token`.
    metrics: bool = False


ANYONE = Rule(None)
READ = Rule(Role.VIEWER)
SUBMIT = Rule(Role.USER)
#: Asks as a submission would, and stores nothing.
TRY = Rule(Role.USER, changes=False)
CHANGE = Rule(Role.USER, own=True)
OPERATE = Rule(Role.OPERATOR)
ADMINISTER = Rule(Role.ADMIN)
#: What the programs of a job call, and operators who look after one.
WORK = Rule(Role.OPERATOR, changes=False, workers=True)
READ_HOSTS = Rule(Role.VIEWER, workers=True)
READ_METRICS = Rule(Role.VIEWER, metrics=True)

RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/healthz"): ANYONE,
    ("GET", "/readyz"): ANYONE,
    ("GET", "/metrics"): READ_METRICS,
    ("GET", "/v1/whoami"): READ,
    ("GET", "/v1/jobs"): READ,
    ("POST", "/v1/jobs"): SUBMIT,
    ("POST", "/v1/jobs/batch"): SUBMIT,
    ("POST", "/v1/whatif"): TRY,
    ("GET", "/v1/jobs/{job_id}"): READ,
    ("PATCH", "/v1/jobs/{job_id}"): CHANGE,
    ("GET", "/v1/jobs/{job_id}/workers"): READ,
    ("POST", "/v1/jobs/{job_id}/cancel"): CHANGE,
    ("POST", "/v1/jobs/{job_id}/suspend"): CHANGE,
    ("POST", "/v1/jobs/{job_id}/resume"): CHANGE,
    ("GET", "/v1/jobs/{job_id}/explain"): READ,
    ("GET", "/v1/jobs/{job_id}/whatif"): READ,
    ("GET", "/v1/explain"): READ,
    ("GET", "/v1/jobs/{job_id}/logs"): READ,
    ("GET", "/v1/jobs/{job_id}/discover_hosts"): READ_HOSTS,
    ("POST", "/v1/jobs/{job_id}/workers/{worker_id}"): WORK,
    ("POST", "/v1/jobs/{job_id}/workers/{worker_id}/shards"): WORK,
    ("GET", "/v1/events"): READ,
    ("GET", "/v1/nodes"): READ,
    ("POST", "/v1/nodes/{name}/cordon"): OPERATE,
    ("POST", "/v1/nodes/{name}/uncordon"): OPERATE,
    ("POST", "/v1/nodes/{name}/drain"): OPERATE,
    ("GET", "/v1/bookings"): READ,
    ("POST", "/v1/bookings"): OPERATE,
    ("GET", "/v1/bookings/{name}"): READ,
    ("DELETE", "/v1/bookings/{name}"): OPERATE,
    ("GET", "/v1/queues"): READ,
    ("POST", "/v1/queues"): ADMINISTER,
    ("GET", "/v1/queues/{path}"): READ,
    ("PUT", "/v1/queues/{path}"): ADMINISTER,
    ("PATCH", "/v1/queues/{path}"): ADMINISTER,
    ("DELETE", "/v1/queues/{path}"): ADMINISTER,
    ("GET", "/v1/recurring"): READ,
    ("POST", "/v1/recurring"): SUBMIT,
    ("GET", "/v1/recurring/{recurring_id}"): READ,
    ("DELETE", "/v1/recurring/{recurring_id}"): CHANGE,
    ("GET", "/v1/cluster"): READ,
    ("GET", "/v1/utilization"): READ,
    ("GET", "/v1/report"): READ,
    ("GET", "/v1/usage"): READ,
    ("GET", "/v1/webhooks"): READ,
    ("GET", "/v1/live"): READ,
    ("GET", "/v1/history"): READ,
    ("GET", "/v1/audit"): ADMINISTER,
    ("POST", "/v1/page-codes"): READ,
    ("POST", "/v1/page-tokens"): ANYONE,
    ("GET", "/v1/tokens"): ADMINISTER,
    ("POST", "/v1/tokens"): ADMINISTER,
    ("DELETE", "/v1/tokens/{token_id}"): ADMINISTER,
}
