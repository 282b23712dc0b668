"""OpenTelemetry traces of ticks: a span for each tick, its phases, and its calls of the store and the cluster.

Only what is put together here is traced, so that a daemon without tracing runs the engine as it is. Where spans go,
and how many of the traces are kept, OpenTelemetry's own variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

from scheduler import __version__
from scheduler.engine.ports import Cluster, Store
from scheduler.engine.tick import Engine, Step, TickReport
from scheduler.engine.timing import gc_pauses
from scheduler.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

#: The phase that begins after each step; the first one is `lease`.
PHASES = {
    Step.LEASED: "observe",
    Step.OBSERVED: "take_inbox",
    Step.INBOX_TAKEN: "absorb",
    Step.ABSORBED: "plan",
    Step.PLANNED: "commit",
    Step.COMMITTED: "post",
    Step.POSTED: "apply",
}
_STORE_CALLS = (
    "read_lease",
    "acquire_lease",
    "renew_lease",
    "release_lease",
    "load_world",
    "load_news",
    "take_inbox",
    "data_shares_done",
    "read_queues",
    "commit",
    "rehearse",
)
_CLUSTER_CALLS = ("observe", "apply")


@contextmanager
def traced_engines(instance: str) -> Iterator[Callable[..., Engine]]:
    """Makes engines whose spans are sent by OTLP over HTTP, the last ones at the end of the block.

    Raises `ConfigError` where the extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        missing = f"{error.name} is not installed: pip install 'elastic-gpu-scheduler[otel]'"
        raise ConfigError(f"setting tracing: {missing}") from None
    about = {"service.name": "sched", "service.version": __version__, "service.instance.id": instance}
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield partial(TracedEngine, tracer_of(provider))
    finally:
        provider.shutdown()


def tracer_of(provider: "TracerProvider") -> "Tracer":
    return provider.get_tracer("sched", __version__)


class TracedEngine(Engine):
    """An engine each of whose ticks is a trace."""

    def __init__(self, tracer: "Tracer", store: Store, cluster: Cluster, *others: Any) -> None:
        """`others`: as `Engine` takes them after its store and its cluster."""
        traced_store = cast("Store", _Traced(tracer, "store", store, _STORE_CALLS))
        traced_cluster = cast("Cluster", _Traced(tracer, "cluster", cluster, _CLUSTER_CALLS))
        super().__init__(traced_store, traced_cluster, *others)
        self._tracer = tracer

    def tick(self) -> TickReport:
        with gc_pauses.paused(), self._tracer.start_as_current_span("tick") as span:
            with _Phases(self._tracer) as phases:
                for step in self.steps():
                    phases.passed(step)
                phases.end(self.report)
            _describe(span, self.report)
        return self.report


class _Phases:
    """One span after the other, each of them the one that calls belong to."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self._open = ExitStack()
        self._span: Span | None = None

    def __enter__(self) -> "_Phases":
        self._begin("lease")
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def passed(self, step: Step) -> None:
        self._open.close()
        self._span = None
        if step in PHASES:
            self._begin(PHASES[step])

    def end(self, report: TickReport) -> None:
        """The phase that a tick which decides nothing ends with."""
        if self._span is None:
            return
        if report.following:
            self._span.update_name("follow")
        if report.error is not None:
            _fail(self._span, report.error)

    def _begin(self, name: str) -> None:
        self._span = self._open.enter_context(self._tracer.start_as_current_span(name))


def _describe(span: "Span", report: TickReport) -> None:
    span.set_attributes(
        {
            "sched.leading": report.leading,
            "sched.events": len(report.events),
            "sched.jobs_changed": len(report.changed),
            "sched.action_failures": len(report.action_failures),
            "sched.violations": len(report.violations),
        }
    )
    if report.error is not None:
        _fail(span, report.error)


def _fail(span: "Span", error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, error))


class _Traced:
    """An object some of whose methods are spans."""

    def __init__(self, tracer: "Tracer", what: str, inner: object, calls: Sequence[str]) -> None:
        self._inner = inner
        for name in calls:
            setattr(self, name, _spanned(tracer, f"{what}.{name}", getattr(inner, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _spanned(tracer: "Tracer", name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        with tracer.start_as_current_span(name):
            return call(*given, **named)

    return run
