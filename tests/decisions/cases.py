"""The cases by their names, which begin with their kinds, and how each is played."""

from collections.abc import Callable
from functools import partial
from itertools import product

from benchmarks import adaptdl, elasticdl, kueue, paddle_edl, virtual
from benchmarks.traces import trace
from benchmarks.trouble import Skipped
from scheduler.config import PolicyName
from tests.decisions.decided import Decided, deciding
from tests.faults.cases import FAILED, load, recorded
from tests.faults.draw import draw
from tests.faults.plan import Scenario
from tests.faults.run import play as play_scenario
from tests.faults.sandbox import Sandbox

#: How many fault seeds are recorded, from 0 on.
SEEDS = 1000
#: Features that came later than the record.
UNRECORDED = frozenset({"queues", "surplus preemptible"})
_SIZES: tuple[PolicyName, ...] = ("elastic", "fifo")
_ADAPTDL = {f"{case.policy}{'-tuned' if case.tuned else ''}": case for case in adaptdl.CASES}
#: Workloads in virtual time, named for their benchmarks.
WORKLOADS: dict[str, Callable[[], object]] = {
    **{f"elasticdl/cpus-{policy}": partial(elasticdl.two_on_320_cpus, policy) for policy in _SIZES},
    **{f"elasticdl/gpus-{policy}": partial(elasticdl.two_on_6_gpus, policy) for policy in _SIZES},
    "elasticdl/service": elasticdl.beside_a_service,
    **{f"paddle_edl/jobs-{policy}": partial(paddle_edl.twenty_jobs, policy) for policy in _SIZES},
    **{f"paddle_edl/service-{policy}": partial(paddle_edl.beside_nginx, policy) for policy in _SIZES},
    "kueue/undisturbed": lambda: virtual.play(kueue.undisturbed(kueue.published()), kueue.NODES),
    "kueue/preempting": lambda: virtual.play(kueue.published(), kueue.NODES),
    **{
        f"adaptdl/{number}-{name}": partial(adaptdl.play, case, number)
        for number, (name, case) in product((1, 2), _ADAPTDL.items())
    },
}


def names(seeds: int) -> list[str]:
    """Names of all cases, the longest-running first; the last `seeds` are fault seeds from 0 on."""
    scenarios = (f"scenarios/{path.stem}" for path in recorded(FAILED))
    return [*reversed(WORKLOADS), *scenarios, *(f"faults/{seed}" for seed in range(seeds))]


def kind_of(name: str) -> str:
    """What the name begins with."""
    return name.partition("/")[0]


def missing_traces() -> str | None:
    """Why the cases of adaptdl cannot be played here; None: they can."""
    try:
        trace("adaptdl", adaptdl.ORIGIN)
    except Skipped as reason:
        return str(reason)
    return None


def play(name: str, box: Sandbox) -> Decided:
    """What is decided in this case; an error that ends it is part of that."""
    with deciding() as decided:
        try:
            _play(name, box, decided)
        except Exception as error:
            decided.trouble = f"{type(error).__name__}: {error}"
    return decided


def _play(name: str, box: Sandbox, decided: Decided) -> None:
    match name.split("/", 1):
        case ["faults", seed]:
            _play_scenario(draw(int(seed), UNRECORDED), box, decided)
        case ["scenarios", stem]:
            _play_scenario(load(FAILED / f"{stem}.json").scenario, box, decided)
        case _:
            WORKLOADS[name]()


def _play_scenario(scenario: Scenario, box: Sandbox, decided: Decided) -> None:
    store = box.fresh()
    outcome = play_scenario(scenario, store)
    decided.read(store)
    decided.trouble = None if outcome.broken is None else ": ".join(outcome.broken)
