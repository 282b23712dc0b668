"""What a number may be, wherever it comes from."""

import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import bounds
from scheduler.bounds import NESTING_MAX, Bound, nested_too_deeply
from scheduler.clusters.kubernetes.api.documents import LEVELS_MAX, parse_document
from scheduler.clusters.kubernetes.api.quantities import amounts_of
from scheduler.clusters.kubernetes.pods import WorkerPods
from scheduler.config import EngineSettings, KubernetesSettings, PolicySettings, load_settings
from scheduler.config.settings import PolicyName
from scheduler.daemon.trainingjobs.resource import job_spec, training_job
from scheduler.errors import InvalidInput
from scheduler.http.json import parse_json
from scheduler.http.schemas.requests import BookingRequest, JobRequest, parse_request
from scheduler.http.schemas.worker_requests import ReportRequest
from scheduler.model.foreign import ForeignUse
from scheduler.model.job import JobSpec, Progress, Runtime
from scheduler.model.shape import WorkerShape
from scheduler.model.speed import Scatter, SizeSpeed
from tests.policy.worlds import NOW, Cluster

BOUNDS = [each for each in vars(bounds).values() if isinstance(each, Bound)]
ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=True)


@given(st.sampled_from(BOUNDS), ANY_FLOAT)
def test_the_nearest_number_that_is_allowed_is_allowed_and_an_allowed_one_stays(bound: Bound, value: float) -> None:
    nearest = bound.nearest(value)
    assert bound.admits(nearest)
    assert math.isfinite(nearest)
    assert nearest == value or not bound.admits(value)
    assert not bound.admits(math.nan)


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_both_ends_are_allowed_and_nothing_beyond_them(bound: Bound) -> None:
    below, beyond = math.nextafter(bound.low, 0.0), math.nextafter(bound.high, math.inf)
    assert all(map(bound.admits, (bound.low, bound.high)))
    assert not any(map(bound.admits, (below, beyond, -beyond)))
    assert [bound.admits(0.0), bound.admits(-bound.low)] == [bound.zero, bound.signed]
    assert [bound.nearest(below), bound.nearest(beyond)] == [0.0 if bound.zero else bound.low, bound.high]


@given(st.sampled_from([bound for bound in BOUNDS if bound.signed]), ANY_FLOAT)
def test_the_nearest_number_has_the_sign_of_the_number(bound: Bound, value: float) -> None:
    assert bound.nearest(-value) == -bound.nearest(value)
    assert bound.nearest(value) * value >= 0
    assert Bound(1, 8, signed=True).nearest(0) == 1


@pytest.mark.parametrize(
    ("bound", "rule"),
    [
        (Bound(1, 8), "must be from 1 to 8"),
        (Bound(1e-6, 1e9, zero=True), "must be 0, or from 1e-06 to 1e+09"),
        (Bound(1, 8, signed=True), "must have a size from 1 to 8"),
        (Bound(1, 8, zero=True, signed=True), "must be 0, or have a size from 1 to 8"),
    ],
)
def test_who_gave_a_wrong_number_is_told_what_is_allowed(bound: Bound, rule: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        bound.check("amount", 2e9)
    assert (refused.value.field, refused.value.rule) == ("amount", f"{rule}, not 2000000000.0")
    bound.check("amount", None)
    bound.check("amount", 8)


#: Numbers at and beyond the edges of floats, as JSON may hold them.
TINY = ("5e-324", "1e-310", "2.2250738585072014e-308", "-5e-324")


@pytest.mark.parametrize("number", TINY)
@pytest.mark.parametrize(
    ("model", "body"),
    [
        (JobRequest, '{"command": "x", "cpus_per_worker": %s}'),
        (JobRequest, '{"command": "x", "time_limit_seconds": %s}'),
        (JobRequest, '{"command": "x", "expected_seconds": %s}'),
        (JobRequest, '{"command": "x", "grace_seconds": %s}'),
        (JobRequest, '{"command": "x", "heartbeat_seconds": %s}'),
        (JobRequest, '{"command": "x", "speedup": [[100, %s], [200, 1.0]]}'),
        (JobRequest, '{"command": "x", "speedup": [[1, 1e15], [2, %s]]}'),
        (JobRequest, '{"command": "x", "fixed": {"replicas": 1, "cpus_per_worker": %s}}'),
        (JobRequest, '{"command": "x", "data": {"shards": 1, "lease_seconds": %s}}'),
        (BookingRequest, '{"name": "b", "slots": 1, "duration_seconds": %s}'),
        (BookingRequest, '{"name": "b", "slots": 1, "duration_seconds": 1, "cpus_per_worker": %s}'),
        (BookingRequest, '{"name": "b", "slots": 1, "duration_seconds": 1, "start_at": %s}'),
        (ReportRequest, '{"fraction": %s}'),
        (ReportRequest, '{"samples_per_second": %s}'),
        (ReportRequest, '{"efficiency": %s}'),
        (ReportRequest, '{"resize_seconds": %s}'),
        (ReportRequest, '{"last_commit_at": %s}'),
        (ReportRequest, '{"checkpoint_seconds_ago": %s}'),
        (ReportRequest, '{"metrics": {"loss": %s}}'),
        (ReportRequest, '{"missed": {"generation": 1, "workers": ["1-1"], "seconds": %s}}'),
    ],
)
def test_a_number_that_is_nearly_zero_is_refused_with_its_bound(model: Any, body: str, number: str) -> None:
    with pytest.raises(InvalidInput, match=r"must (be|have) .*, not "):
        parse_request(model, (body % number).encode())


@pytest.mark.parametrize("field", ["cpusPerWorker", "expectedSeconds", "timeLimitSeconds"])
def test_a_training_job_keeps_the_same_bounds(field: str) -> None:
    item = {"metadata": {"namespace": "n", "name": "a", "uid": "u"}, "spec": {"command": ["x"], field: 5e-324}}
    with pytest.raises(InvalidInput, match=rf"spec\.{field}: must be .*, not 5e-324"):
        job_spec(training_job(item), KubernetesSettings())


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("policy", "aging_per_hour"),
        ("policy", "share_margin"),
        ("policy", "service_class_slot_seconds"),
        ("policy", "tiresias_slot_seconds"),
        ("policy", "remeasure_seconds"),
        ("engine", "lease_seconds"),
        ("engine", "tick_interval_seconds"),
        ("kubernetes", "requests_per_second"),
    ],
)
def test_a_setting_keeps_the_same_bounds(group: str, name: str) -> None:
    with pytest.raises(Exception, match=rf"setting {group}\.{name}: must be "):
        load_settings(overrides={group: {name: 5e-324}})


@pytest.mark.parametrize(
    "make",
    [
        lambda number: JobSpec("a", ("x",), speedup=((1, number),)),
        lambda number: JobSpec("a", ("x",), expected_seconds=number),
        lambda number: WorkerShape(cpus=number),
        lambda number: ForeignUse(cpus=number),
        lambda number: SizeSpeed(1, number),
        lambda number: Scatter(number),
        lambda number: Progress(fraction=number),
        lambda number: Progress(whole_slot_seconds=number),
        lambda number: Progress(samples_per_second=number),
    ],
)
@pytest.mark.parametrize("number", [math.inf, math.nan, -1.0, 5e-324])
def test_no_value_of_the_model_holds_a_number_that_ruins_what_is_computed(make: Any, number: float) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        make(number)


PODS = WorkerPods(KubernetesSettings(instance="sched"), b"secret")


def _pod(**notes: str) -> dict[str, Any]:
    prefix = "elastic-gpu-scheduler/"
    labels = {f"{prefix}instance": "sched", f"{prefix}job": "7", f"{prefix}worker": "7-1"}
    known = {"node": "a", "slots": "0", "cpus": "1", "memory-mib": "8", **notes}
    annotations = {f"{prefix}{name}": value for name, value in known.items()}
    annotations[f"{prefix}seal"] = PODS.seal("default", "sched-7-1")
    return {"metadata": {"namespace": "default", "name": "sched-7-1", "labels": labels, "annotations": annotations}}


@pytest.mark.parametrize(
    "notes",
    [
        {"cpus": "inf"},
        {"cpus": "nan"},
        {"cpus": "5e-324"},
        {"cpus": "-1"},
        {"memory-mib": "1e400"},
        {"memory-mib": "nan"},
        {"slots": "99999999999"},
        {"slots": "-1"},
        {"slots": ",".join(["1"] * 5000)},
        {"slots": "٣"},
    ],
)
def test_a_pod_with_numbers_that_the_scheduler_never_writes_is_no_worker(notes: dict[str, str]) -> None:
    assert PODS.worker(_pod()) is not None
    assert PODS.worker(_pod(**notes)) is None


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999999", "-5", "5e-324", "9" * 400, "1e30Gi", "x"])
def test_any_quantity_of_the_cluster_counts_as_a_finite_amount(text: str) -> None:
    amounts = amounts_of({"gpu": text, "cpu": text, "memory": text}, "gpu")
    assert bounds.CPUS_HELD.admits(amounts.finite_cpus)
    assert 0 <= amounts.whole_slots <= amounts.touched_slots <= bounds.SLOTS.high
    assert 0 <= amounts.whole_mib <= amounts.touched_mib <= bounds.MEMORY_MIB.high


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def test_so_many_levels_are_allowed_and_not_one_more() -> None:
    for levels in (1, 2, NESTING_MAX):
        for leaf in (1, "{[", None):
            deep: Any = leaf
            for level in range(levels):
                deep = {"a": deep, "b": 1} if level % 2 else [deep, 1]
            assert not nested_too_deeply(deep, levels)
            assert nested_too_deeply([deep], levels)
    assert not any(map(nested_too_deeply, (1, "{[", None)))


def test_bodies_are_read_as_deep_as_any_use_needs_and_no_deeper() -> None:
    assert parse_json(_nested(NESTING_MAX).encode()) == parse_json(_nested(NESTING_MAX).encode())
    for levels in (NESTING_MAX + 1, 300, 1000, 100_000):
        with pytest.raises(InvalidInput, match=r"must not be nested more than 32 levels deep|not valid JSON"):
            parse_json(_nested(levels).encode())
    with pytest.raises(InvalidInput, match="must not be nested"):
        parse_json(b"[" * 40 + b"]" * 40)


def test_a_template_of_a_training_job_is_refused_where_it_is_nested_too_deeply() -> None:
    template = {"spec": {"x": parse_document(_nested(100).encode())}}
    item = {
        "metadata": {"namespace": "n", "name": "a", "uid": "u"},
        "spec": {"command": ["x"], "template": template},
    }
    with pytest.raises(InvalidInput, match=r"spec\.template: must not be nested more than 32 levels deep"):
        job_spec(training_job(item), KubernetesSettings())


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_a_document_that_is_nested_too_deeply_keeps_no_list_from_being_read(deep: int, lists: int) -> None:
    text = f'{{"items": [{{"a": {_nested(deep)}}}, {"[" * lists}"x\\"]}}"{"]" * lists}, {{"b": "]}}"}}]}}'
    document = parse_document(text.encode())
    assert document["items"][-1] == {"b": "]}"}
    assert len(document["items"]) == 3
    assert deep > 900 or lists > 900 or not nested_too_deeply(document, 1024)
    assert LEVELS_MAX > NESTING_MAX


def _edges(bound: Bound) -> st.SearchStrategy[float]:
    """The extremes of what is allowed, and anything between them."""
    ends = [bound.low, math.nextafter(bound.low, math.inf), bound.high, *([0.0] if bound.zero else [])]
    return st.sampled_from(ends) | st.floats(bound.low, bound.high)


def _curve(bound: Bound) -> st.SearchStrategy[tuple[tuple[int, float], ...]]:
    sizes = st.sampled_from([1, 2, 3, 4, 7, 64, 99_999, 100_000])
    return st.dictionaries(sizes, _edges(bound), max_size=4).map(lambda points: tuple(sorted(points.items())))


JOB = st.fixed_dictionaries(
    {
        "resize_seconds": st.none() | _edges(bounds.SECONDS),
        "throughput": _curve(bounds.RATE),
        "fraction": st.none() | _edges(bounds.FRACTION),
        "whole_slot_seconds": st.none() | _edges(bounds.SLOT_SECONDS),
        "reported_at": st.none() | st.just(NOW - 10.0),
        "last_commit_at": st.none() | _edges(bounds.MOMENT),
        "last_checkpoint_at": st.none() | _edges(bounds.MOMENT),
        "runtime": st.sampled_from(Runtime),
        "speedup": _curve(bounds.SPEED),
        "expected_seconds": st.none() | _edges(bounds.DURATION),
        "time_limit_seconds": st.none() | st.floats(2000.0, bounds.DURATION.high),
        "grace_seconds": _edges(bounds.GRACE),
        "priority": st.sampled_from([0, 1]),
        "cpus": st.sampled_from([0.0, bounds.CPUS.low, 1.0]),
    }
)


@given(
    st.sampled_from(get_args(PolicyName)),
    st.lists(JOB, min_size=1, max_size=4),
    st.lists(JOB, max_size=3),
    _edges(bounds.FACTOR),
    _edges(bounds.FACTOR),
)
def test_no_policy_fails_or_hangs_on_numbers_at_the_edge_of_what_is_allowed(
    name: Any, running: list[dict[str, Any]], waiting: list[dict[str, Any]], margin: float, payback: float
) -> None:
    settings = PolicySettings(name=name, share_margin=margin, grow_payback_factor=payback)
    c = Cluster(settings)
    c.node("a", slots=8, cpus=64.0).node("b", slots=8, cpus=64.0)
    for number, fields in enumerate(running, 1):
        c.running(number, {"ab"[number % 2]: 2}, workers=(1, 100_000), **fields)
    for number, fields in enumerate(waiting, 10):
        c.waiting(number, workers=(1, 4), **fields)
    made = c.plan(outside_bounds=True)
    assert made.next_look_at is None or math.isfinite(made.next_look_at)


@given(st.permutations([bounds.SPEED.low, 1.0, bounds.SPEED.high, 1.0]), st.booleans(), st.sampled_from([1, 2, 3]))
def test_a_speed_that_is_next_to_nothing_beside_another_is_still_one(
    speeds: list[float], measured: bool, held: int
) -> None:
    curve = tuple(enumerate(speeds, 1))
    known = {"throughput": curve} if measured else {"speedup": curve, "throughput": ((held, 1.0),)}
    c = Cluster().node("a", slots=8)
    c.running(1, {"a": held}, workers=(1, 8), **known)
    c.running(2, {"a": 2}, workers=(1, 8))
    made = c.plan(outside_bounds=True)
    assert made.next_look_at is None or math.isfinite(made.next_look_at)


def test_the_smallest_times_of_the_engine_are_no_smaller_than_what_a_clock_tells() -> None:
    assert EngineSettings(tick_interval_seconds=0.0).tick_interval_seconds == 0.0
    with pytest.raises(Exception, match="must be 0, or from 1e-06"):
        EngineSettings(tick_interval_seconds=1e-9)
