"""Mean completion times on Pollux's workloads 1 and 2: 160 training jobs with measured speeds on 16 nodes of 4 GPUs.

It needs the traces of petuum/adaptdl, branch osdi21-artifact, directory simulator: `adaptdl/workload-1.csv` and
`-2.csv` (workloads), and `adaptdl/apps/` (traces). Published policies decide every 60 s as they did there, ours at
once. An oracle is told beforehand how long each job takes and how fast it is with any number of workers; ours hears
only what workers report as they go, their speed and how much is done. A change of membership costs a job 30 s. Figures
are means over the two workloads. Beside them stand those of AdaptDL's simulator: of Pollux, Tiresias and Optimus as
published, of the others as measured with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.figure import Figure, number
from benchmarks.traces import trace
from scheduler.config import PolicyName, PolicySettings, Settings
from scheduler.simulate.declare import declared
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.read import Source, read_workload
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.summary import Summary, summarize

ORIGIN = "github.com/petuum/adaptdl, branch osdi21-artifact, directory simulator"
NODES, NODE_SLOTS = "16x4", 4
ROUND_SECONDS, REPORT_SECONDS = 60.0, 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """One row: who decides, knowing what."""

    policy: PolicyName
    what: str
    tuned: bool = False
    durations: bool = False
    speedups: bool = False
    every_seconds: float = ROUND_SECONDS
    #: Whose it is in AdaptDL's simulator, and there for each of the two workloads, in seconds.
    by: str = ""
    elsewhere: tuple[float, ...] = ()


OURS = Case("elastic", "ours, fixed batch sizes", every_seconds=0.0, by="Optimus, oracle", elsewhere=(4087, 6914))
TUNED = Case("elastic", "ours, batch sizes tuned", tuned=True, every_seconds=0.0, by="Pollux", elsewhere=(2089, 3323))
AFS = Case("afs", "afs, oracle", durations=True, speedups=True, by="AFS-L, oracle", elsewhere=(2379, 3929))
SHORTEST = Case(
    "shortest",
    "shortest, oracle",
    durations=True,
    speedups=True,
    by="shortest remaining first, oracle",
    elsewhere=(2324, 3701),
)
CASES = (
    OURS,
    TUNED,
    Case("fifo", "fifo", by="first fit", elsewhere=(4933, 14733)),
    Case("easy", "easy, durations declared", durations=True),
    Case("conservative", "conservative, durations declared", durations=True),
    Case("elastic-fifo", "elastic-fifo", by="ElasticFIFO", elsewhere=(2895, 4922)),
    Case("edl", "edl"),
    Case("tiresias", "tiresias", by="Tiresias", elsewhere=(2474, 5145)),
    AFS,
    SHORTEST,
)


def run() -> list[Figure]:
    results = {case: [play(case, number) for number in (1, 2)] for case in CASES}
    means = {case: fmean(map(completion, summaries)) for case, summaries in results.items()}
    return [
        *(_figure(case, means[case], summaries) for case, summaries in results.items()),
        *(
            Figure(f"{case.what} ÷ {oracle.what}", means[case] / means[oracle], "×")
            for case in (OURS, TUNED)
            for oracle in (AFS, SHORTEST)
        ),
        Figure("ours, batch sizes tuned ÷ Pollux", means[TUNED] / fmean(TUNED.elsewhere), "×"),
    ]


def play(case: Case, workload_number: int) -> Summary:
    """One of the two workloads."""
    profiles = trace("adaptdl/apps", ORIGIN)
    path = trace(f"adaptdl/workload-{workload_number}.csv", ORIGIN)
    workload = read_workload(str(path), Source(profiles=profiles, tuned=case.tuned))
    setup = Setup(
        nodes=read_nodes(NODES, "nodes"),
        settings=Settings(policy=PolicySettings(name=case.policy)),
        every_seconds=case.every_seconds,
        report_seconds=REPORT_SECONDS,
        tells_fraction=True,
    )
    said = declared(workload, NODE_SLOTS, durations=case.durations, speedups=case.speedups)
    return summarize(simulate(said, setup))


def completion(summary: Summary) -> float:
    """Mean completion time; infinite where a job did not end."""
    return summary.completion_seconds.mean if summary.completion_seconds and not summary.unfinished else float("inf")


def _figure(case: Case, mean: float, summaries: Sequence[Summary]) -> Figure:
    resizes = fmean(summary.resizes for summary in summaries)
    note = f"{_pair([completion(summary) for summary in summaries])}; {number(resizes)} resizes per job"
    published = f"{case.by}: {number(fmean(case.elsewhere))} s" if case.elsewhere else ""
    if case.elsewhere:
        note += f"; there {_pair(case.elsewhere)}"
    return Figure(f"{case.what}: mean completion time", mean, "s", published=published, note=note)


def _pair(seconds: Sequence[float]) -> str:
    return f"{' and '.join(map(number, seconds))} s"
