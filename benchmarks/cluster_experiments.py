"""ElasticDL's three experiments on real parts: the cluster of KUBECONFIG, real training, a real nginx under load.

1: two jobs that each want more than half of the cluster. 2: training on what a service leaves. 3: the quality of
training whose workers come and go. Decisions are those of the settings as shipped. The nodes have to run on this
machine, and need no GPUs: a slot is a resource that only the benchmark knows.
"""

from collections.abc import Iterator, Sequence

from benchmarks.cluster import beside_service, convergence, two_jobs
from benchmarks.cluster.beside_service import most_of, worst
from benchmarks.cluster.convergence import Outcome
from benchmarks.cluster.site import running_site
from benchmarks.figure import Figure, median
from benchmarks.trouble import Skipped
from benchmarks.wide_deep import FIXED

SEEDS = 2
EXPERIMENTS = {"1": "two jobs", "2": "beside nginx", "3": "convergence"}
#: Between the AUC of elastic and of fixed training, as `wide_deep` has it.
_DIFFERENCE_MAX = 0.005


def run(experiments: str = "1,2,3", seeds: int = SEEDS) -> list[Figure]:
    chosen = experiments.split(",")
    if unknown := [each for each in chosen if each not in EXPERIMENTS]:
        raise Skipped(f"no experiment {unknown[0]!r}: there are {', '.join(EXPERIMENTS)}")
    if seeds < 1:
        raise Skipped("convergence needs a seed: --seeds 1 or more")
    figures: list[Figure] = []
    if "1" in chosen:
        figures += _two_jobs()
    if "2" in chosen:
        figures += _beside_nginx()
    if "3" in chosen:
        figures += _convergence(range(1, seeds + 1))
    return figures


def _two_jobs() -> Iterator[Figure]:
    with running_site(two_jobs.SLOTS) as site:
        elastic = two_jobs.train_two(site, 1)
        print(f"two jobs, elastic: {elastic}", flush=True)
        gang = two_jobs.train_two(site, two_jobs.WORKERS)
        print(f"two jobs, gang: {gang}", flush=True)
    what = f"2 × {two_jobs.WORKERS} workers on {two_jobs.SLOTS} slots"
    yield Figure(
        f"{what}: all done",
        elastic.all_done_seconds,
        "s",
        at_most=gang.all_done_seconds,
        published="1,100 s",
        note=f"published, at this scale: {two_jobs.PUBLISHED_ELASTIC_SECONDS:.0f} s",
    )
    yield Figure(f"{what}: the second job waits", elastic.wait_seconds, "s", at_most=1.0, published="0 s")
    yield Figure(
        f"{what}: the second job's first workers run after",
        elastic.until_running_seconds,
        "s",
        note=f"{elastic.second_workers} workers beside {elastic.first_workers}",
    )
    yield Figure(
        f"{what}, gang: all done",
        gang.all_done_seconds,
        "s",
        published="1,300 s",
        note=f"published, at this scale: {two_jobs.PUBLISHED_GANG_SECONDS:.0f} s",
    )
    yield Figure(f"{what}, gang: the second job waits", gang.wait_seconds, "s")


def _beside_nginx() -> Iterator[Figure]:
    rigid_workers = beside_service.SLOTS - beside_service.SERVICE_MOST
    arms = {"": (1, beside_service.SLOTS), ", rigid": (rigid_workers, rigid_workers)}
    courses = {}
    for arm, workers in arms.items():
        with running_site(beside_service.SLOTS) as site:
            courses[arm] = beside_service.train_beside(site, workers)
        print(f"beside nginx{arm}: {_line(courses[arm])}", flush=True)
    for arm, course in courses.items():
        what = f"training beside nginx on {beside_service.SLOTS} slots{arm}"
        target = 90.0 if not arm else None
        published = "above 90 %" if not arm else ""
        note = f"at least {course.least_used} slots at any moment"
        yield Figure(f"{what}: use", 100.0 * course.used_share, "%", at_least=target, published=published, note=note)
        note = f"{len(course.waits)} pods of nginx, at most {course.service_most} at a time"
        yield Figure(f"{what}: wait of a pod of nginx for room, median", median(course.waits), "s", note=note)
        yield Figure(f"{what}: the same, longest", worst(course.waits), "s")
        yield Figure(f"{what}: a pod of nginx serves after, longest", worst(course.starts), "s")
        note = f"{course.answers.requests:,} requests, {course.answers.failed} without an answer"
        yield Figure(f"{what}: nginx answers, 99 %", course.answers.percentile_ms(0.99), "ms", note=note)
        yield Figure(f"{what}: samples trained", float(course.samples), "samples")
    leaves = courses[""].leaves
    note = f"{len(leaves)} workers, the slowest {max(leaves):.1f} s" if leaves else "no worker left"
    yield Figure("a worker that is asked to leave is gone, 90 %", most_of(leaves), "s", note=note)


def _line(course: beside_service.Course) -> str:
    return (
        f"use {course.used_share:.1%}, {len(course.service)} pods of nginx, {worst(course.waits) or 0:.1f} s at most "
        f"without room, {course.samples:,} samples, grew {course.grown} times, shrank for {course.shrunk}"
    )


def _convergence(seeds: Sequence[int]) -> Iterator[Figure]:
    with running_site(convergence.SLOTS) as site:
        outcomes = []
        for seed in seeds:
            outcomes.append(convergence.train_all(site, seed))
            print(f"convergence, seed {seed}: {outcomes[-1]}", flush=True)
    for way in convergence.WAYS:
        fixed, elastic = ([each[way, arm] for each in outcomes] for arm in (False, True))
        note = f"mean of {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
        yield Figure(f"{way}, {FIXED} workers: final AUC", _mean_auc(fixed), "", note=note)
        yield Figure(f"{way}, 2 to 6 workers: final AUC", _mean_auc(elastic), "", note=note)
        gaps = [abs(a.auc - b.auc) for a, b in zip(elastic, fixed, strict=True)]
        yield Figure(f"{way}: largest difference of AUC in a seed", max(gaps), "", at_most=_DIFFERENCE_MAX)
        resizes = sum(each.resizes for each in elastic) / len(seeds)
        yield Figure(f"{way}: resizes per training of 2 to 6", resizes, "", at_least=2)
        wrong = float(sum(each.wrong for each in (*fixed, *elastic)))
        counted = "samples" if way == convergence.ALLREDUCE else "shards at a server"
        yield Figure(f"{way}: {counted} that do not count exactly once", wrong, "", at_most=0)


def _mean_auc(outcomes: Sequence[Outcome]) -> float:
    return sum(each.auc for each in outcomes) / len(outcomes)
