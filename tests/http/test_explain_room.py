"""explain on room: what is free and of no use, what is kept for whom, and what would let a job have it."""

from dataclasses import replace
from pathlib import Path

from scheduler.clusters.simulated.process import Behaviour
from scheduler.http.explain.explanation import explain as explain_in
from scheduler.http.explain.planner_query import look
from scheduler.http.explain.running import what_blocks, why_this_size
from scheduler.http.explain.stopped import why_stopped
from scheduler.http.explain.waiting import why_waiting
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import Progress, Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.speed import SizeSpeed
from scheduler.model.worker import WorkerState
from scheduler.model.world import CrowdedSlot
from scheduler.policy.explain.growth_limits import Growth, Limit
from tests.http.site import Site
from tests.http.test_explain import explain
from tests.http.test_idle import idle
from tests.world import World

SLOW = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=50.0)


def ways(site: Site, job_id: int) -> str:
    return " ".join(explain(site, job_id)["would_change"])


def parts(site: Site) -> list[tuple[str, int, int | None, str | None]]:
    return [(each["reason"], each["slots"], each["for_job"], each["booking"]) for each in idle(site)["idle"]]


def test_a_job_that_lacks_cpus_does_not_grow_and_says_so(site: Site) -> None:
    site.node("a", slots=4, cpus=2.0)
    job = site.job("trains", workers=(1, 4), cpus=1.0)
    site.settle()
    view = explain(site, job)
    assert view["reason"] == "INSUFFICIENT_SLOTS"
    assert view["summary"] == (
        "Runs with 2 of at most 4 workers: 2 suitable slots are free, but too few CPUs are free on the same node: "
        "a worker needs 1."
    )
    assert "running jobs below their maximum: 1 without room (lacking CPUs)" in idle(site)["idle"][0]["sentence"]


def test_both_explanations_agree_on_slots_that_are_scattered(site: Site) -> None:
    site.node("a", slots=3)
    site.node("b", slots=3)
    job = site.job("pairs", workers=(1, 4), slots_per_worker=2)
    site.settle()
    assert "2 suitable slots are free, but too few on one node: a worker needs 2" in explain(site, job)["summary"]
    assert "1 without room (lacking slots on one node)" in idle(site)["idle"][0]["sentence"]


def test_a_job_that_waits_names_the_cpus_that_it_lacks(site: Site) -> None:
    site.node("a", slots=4, cpus=4.0)
    site.job("eater", cpus=3.0, priority=5)
    site.settle()
    job = site.job("wants", cpus=2.0)
    site.settle()
    assert (
        "3 of 4 suitable slots are free, but too few CPUs are free on the same node: a worker needs 2"
        in (explain(site, job)["summary"])
    )


def test_a_sharer_says_that_it_may_not_have_slots_of_its_own_besides(site: Site) -> None:
    site.node("a", slots=2, oversell=1.5)
    owner = site.job("own", workers=2, priority=5)
    site.settle()
    sharer = site.job("shares", workers=(1, 4), oversell=True)
    site.settle()
    site.ask_cancel(owner)
    site.settle()
    summary = explain(site, sharer)["summary"]
    assert "no shared slots are free; 2 unshared are, but a job cannot use both kinds" in summary


def test_idle_slots_of_a_cordoned_node_are_named_with_the_way_to_get_them(site: Site) -> None:
    site.node("b", slots=2)
    site.tick()
    site.client.post("/v1/nodes/b/cordon")
    site.tick()
    running, waiting = site.job("runs", workers=(1, 4), priority=3), site.job("full", workers=2, priority=5)
    site.settle()
    elastic = explain(site, running)
    assert (elastic["reason"], "2 of at most 4" in elastic["summary"]) == ("INSUFFICIENT_SLOTS", True)
    assert "2 idle slots are on nodes closed to new workers: b (CORDONED)." in elastic["summary"]
    assert '"sched uncordon b"' in ways(site, running)
    low = site.job("waits", workers=2, priority=1, preemptible=False)
    site.settle()
    assert "2 idle slots are on nodes closed to new workers: b (CORDONED)." in explain(site, low)["summary"]
    assert '"sched uncordon b"' in ways(site, low)
    assert explain(site, waiting)["would_change"] == []


def test_idle_slots_of_a_node_that_is_down_wait_for_it(site: Site) -> None:
    site.node("b", slots=4, labels=(("z", "b"),))
    site.job("full", workers=4, priority=5, selector={"z": "b"})
    site.settle()
    site.cluster.lose_node(site.node_name("a"))
    site.settle()
    job = site.job("waits", workers=3, priority=1, preemptible=False)
    site.settle()
    assert "4 idle slots are on nodes closed to new workers: a (DOWN)." in explain(site, job)["summary"]
    assert "return of a node that is down" in ways(site, job)


def test_booked_slots_are_told_as_kept_and_their_losses_as_lost(site: Site) -> None:
    job = site.job("trains", workers=(1, 4), grace_seconds=1.0)
    site.settle()
    site.book("exam", slots=3, start=30, duration=60_000)
    site.advance(60)
    view = explain(site, job)
    assert (view["reason"], view["for_job"]) == ("BEHIND_BOOKING", None)
    assert "3 suitable slots are free, but reserved for booking exam" in view["summary"]
    assert '"sched unbook exam"' in ways(site, job)
    assert [(each["reason"], each["sentence"]) for each in view["lost"]] == [
        ("BOOKED", "4 -> 1 workers: its slots are booked (booking exam)")
    ]
    assert parts(site) == [("KEPT", 3, None, "exam")]
    assert "3 slots are reserved for booking exam." in idle(site)["idle"][0]["sentence"]
    waiting = site.job("waits", workers=2, priority=-1)
    site.advance(3)
    view = explain(site, waiting)
    assert "3 of 4 suitable slots are free, of which 3 are reserved for booking exam" in view["summary"]
    assert view["would_change"] == ['The end of booking exam ("sched bookings"), or "sched unbook exam".']


def test_slots_that_only_a_job_ahead_keeps_idle_name_it(site: Site) -> None:
    site.node("b", slots=4, labels=(("z", "b"),))
    site.job("long", workers=4, priority=5, preemptible=False, selector={"z": "b"}, runtime=Runtime.COMMAND)
    site.job("half", workers=2, priority=5, preemptible=False, runtime=Runtime.COMMAND)
    site.settle()
    big = site.job("big", workers=4, priority=5, preemptible=False, runtime=Runtime.COMMAND)
    site.settle()
    small = site.job("small", workers=1, priority=1, preemptible=False, runtime=Runtime.COMMAND)
    site.settle()
    assert (explain(site, small)["reason"], explain(site, small)["for_job"]) == ("BEHIND_RESERVATION", big)
    assert parts(site) == [("KEPT", 2, big, None)]
    assert (
        f"2 slots are reserved for job {big} (big, priority 5), which has precedence."
        in idle(site)["idle"][0]["sentence"]
    )
    assert f"A priority of at least 6, to go ahead of job {big}" in ways(site, small)


def test_a_priority_is_told_only_where_the_planner_says_that_it_helps(site: Site) -> None:
    fixed = site.job("fixed", workers=2, priority=5, preemptible=False, runtime=Runtime.COMMAND)
    site.job("low", workers=(1, 4), priority=1)
    site.settle()
    four = site.job("four", workers=4)
    site.settle()
    way = f"The end of job {fixed} (fixed, priority 5), together with a priority of at least 2."
    assert explain(site, four)["would_change"] == [way]
    two = site.job("two", workers=2)
    site.settle()
    assert f'"sched priority {two} 2 --dry-run"' in ways(site, two)


def test_a_beneficiary_that_has_ended_is_said_to_have(site: Site) -> None:
    low = site.job("low", workers=(1, 4), priority=1, grace_seconds=100.0, behaviour=SLOW)
    site.settle()
    high = site.job("high", workers=2, priority=5)
    site.advance(5)
    assert ways(site, low) == f"The end of job {high} (high, priority 5)."
    site.ask_cancel(high)
    site.advance(5)
    view = explain(site, low)
    assert (view["reason"], view["for_job"]) == ("PREEMPTED", high)
    assert f"it is giving up workers for job {high}, which has ended" in view["summary"]
    assert view["would_change"] == []


def test_what_is_too_much_for_one_worker_is_named(site: Site) -> None:
    site.node("a", slots=4, cpus=8.0, memory_mib=64_000)
    job = site.job("huge", memory_mib=10_000_000)
    site.settle()
    view = explain(site, job)
    assert view["summary"] == ("Too large for every node: a worker needs 10000000 MiB (no node has more than 64000).")
    assert "smaller workers" in ways(site, job)
    both = site.job("wide", slots_per_worker=8, memory_mib=10_000_000)
    site.settle()
    assert explain(site, both)["summary"] == (
        "Too large for every node: a worker needs 8 slots (no node has more than 4) "
        "and 10000000 MiB (no node has more than 64000)."
    )


def test_where_there_are_no_nodes_it_says_that(tmp_path: Path) -> None:
    w = World(tmp_path)
    job = w.job("early")
    w.advance(5)
    assert w.board.world is not None
    view = explain_in(w.get(job), w.board.world, w.settings.policy, w.clock.now())
    assert (view["reason"], view["summary"]) == ("NO_MATCHING_NODE", "Waits for nodes: the cluster has none.")
    w.close()


def test_workers_lost_with_a_node_are_told(site: Site) -> None:
    node = site.node("b", slots=4)
    job = site.job("trains", workers=(1, 8))
    site.settle()
    site.cluster.lose_node(node)
    site.settle()
    (lost,) = explain(site, job)["lost"]
    assert (lost["kind"], lost["reason"]) == ("WORKER_ENDED", "LOST")
    assert lost["sentence"] == "4 workers on b: lost with their node, or ended in an unknown way"
    assert lost["at"] == next(e.at for e in site.events(EventKind.WORKER_ENDED) if e.cause == "LOST")


def test_a_job_that_was_stopped_for_a_drain_says_so(site: Site) -> None:
    job = site.job("trains", workers=(1, 4))
    site.settle()
    site.client.post("/v1/nodes/a/drain")
    site.tick()
    site.settle()
    view = explain(site, job)
    assert view["state"] == "QUEUED"
    told = "all workers: its nodes are being drained, or their slots are unhealthy"
    assert [each["sentence"] for each in view["lost"]] == [told]


def test_one_slot_and_one_worker_are_told_as_one(site: Site) -> None:
    full = site.job("full", workers=3, priority=5)
    site.settle()
    job = site.job("waits", workers=2)
    site.settle()
    assert "and 1 of 4 suitable slots is free" in explain(site, job)["summary"]
    assert "Runs with 3 of at most 3 workers" in explain(site, full)["summary"]
    assert explain(site, full)["details"]["reserved_by"] is None


def test_free_slots_held_for_a_job_are_told_to_those_that_could_use_them(site: Site) -> None:
    full = site.job("full", workers=1, priority=9)
    hungry = site.job("hungry", workers=(1, 4), priority=3, preemptible=False)
    site.settle()
    site.ask(IntentKind.SCALE, hungry, min_workers=1, max_workers=1)
    low = site.job("low", workers=1, priority=1, grace_seconds=100.0, behaviour=SLOW)
    site.settle()
    high = site.job("high", workers=2, priority=5)
    site.advance(5)
    site.ask(IntentKind.SCALE, hungry, min_workers=1, max_workers=4)
    site.advance(5)
    held = {job: explain(site, job)["details"]["reserved_by"] for job in (full, hungry, low)}
    assert held == {full: None, hungry: high, low: None}


def test_who_is_kept_out_for_a_booking_ahead_finds_its_name_beside_the_idle_slots(site: Site) -> None:
    site.job("one")
    site.book("exam", slots=3, start=3000, duration=600)
    site.settle()
    rigid = site.job("rigid", workers=2, preemptible=False, runtime=Runtime.COMMAND)
    site.settle()
    assert explain(site, rigid)["reason"] == "BEHIND_BOOKING"
    assert "The end of booking exam, or a shorter time limit" in ways(site, rigid)
    assert idle(site)["idle"][0]["sentence"].endswith(
        "Jobs that could not leave in time are kept out for booking exam."
    )


def test_pauses_of_growth_are_told_with_what_the_planner_goes_by(site: Site) -> None:
    job_id = site.job("trains", workers=(1, 2))
    site.settle()
    world, now = site.board.world, site.clock.now()
    assert world is not None
    speeds = (SizeSpeed(1, 300.0), SizeSpeed(2, 577.4), SizeSpeed(4, 500.0))
    progress = Progress(resize_seconds=10.0, speeds=speeds)
    job = replace(world.active[job_id], max_workers=4, progress=progress)
    slower = (
        "more workers would not make it faster (300 samples/s with 1 worker, 577.4 samples/s with 2 workers, "
        "500 samples/s with 4 workers); more are tried again in 90.0 s if slots are idle; "
        f"`sched scale {job_id} --min 3` gives it more all the same."
    )
    for growth, reason, says in (
        (Growth(Limit.COOLDOWN, now + 7.0, 2), "COOLDOWN", "it was resized recently, and may grow again in 7.0 s."),
        (Growth(Limit.PAYBACK), "PAYBACK", "growth would save less than 48 times the 10.0 s that a resize takes."),
        (Growth(Limit.NO_GAIN, now + 90.0), "NO_GAIN", slower),
        (Growth(Limit.UNTRIED, now + 5.0), "UNTRIED", "once it has reported its speed at this size, or in 5.0 s."),
    ):
        why, _, sentence = why_this_size(job, growth, world, site.settings.policy, now)
        assert (why, sentence.endswith(says)) == (reason, True), sentence


def test_a_job_that_waits_for_a_closed_node_names_that_one_and_says_nothing_of_those_that_are_open(site: Site) -> None:
    site.node("b", slots=4)
    site.node("c", slots=4, labels=(("z", "c"),))
    site.tick()
    for name in "bc":
        site.client.post(f"/v1/nodes/{name}/cordon")
    wide = site.job("wide", workers=6, selector={})
    served = site.submit(fixed={"replicas": 1, "slots_per_worker": 1, "node_selector": {"z": "c"}})
    site.settle()
    told = {job: explain(site, job) for job in (wide, served)}
    assert {view["reason"] for view in told.values()} == {"NODES_UNAVAILABLE"}
    closed = "Waits for nodes that are closed to new workers: b (CORDONED), c (CORDONED)."
    assert {job: view["summary"] for job, view in told.items()} == {wide: closed, served: closed}


def test_one_worker_that_would_fit_is_told_as_one(site: Site) -> None:
    site.node("a", slots=1)
    job = site.job("pair", workers=2)
    site.settle()
    assert f'A smaller minimum: 1 worker would fit on the existing nodes ("sched scale {job} --min 1").' in ways(
        site, job
    )


def test_a_job_that_is_stopped_for_an_equal_names_it_in_a_sentence(site: Site) -> None:
    first, other = site.job("first"), site.job("other")
    site.settle()
    world = site.board.world
    assert world is not None
    stopping = replace(site.get(first), state=JobState.STOPPING, stop_reason=StopReason.REBALANCED, stop_for=other)
    assert why_stopped(stopping, world) == (
        "Is being stopped: jobs of the same priority take turns, and its slots are needed "
        f"for job {other} (other, priority 0). Workers still to leave: 1."
    )


def test_workers_that_do_not_run_yet_are_told_with_one_full_stop(site: Site) -> None:
    job = site.get(site.job("three", workers=3))
    site.settle()
    job = site.get(job.id)
    why = "0/3 nodes are available: 3 Insufficient cpu."
    stuck = tuple(replace(worker, state=WorkerState.PENDING, detail=why) for worker in job.workers)
    one = what_blocks(replace(job, workers=stuck[:1]))
    assert one == f" Worker {stuck[0].id} on a is not running yet: {why}"
    three = what_blocks(replace(job, workers=stuck))
    assert three == f" Worker {stuck[0].id} on a and 2 more are not running yet: {why}"


def test_what_is_kept_of_the_free_slots_is_told_before_those_to_share_and_what_they_lack(site: Site) -> None:
    site.node("a", slots=4, cpus=4.0, oversell=1.5)
    site.job("eater", cpus=3.0, priority=5)
    site.settle()
    site.book("exam", slots=1, start=30, duration=60_000)
    site.advance(31)
    job_id = site.job("wants", cpus=2.0, oversell=True)
    site.advance(1)
    job, world, now = site.get(job_id), site.board.world, site.clock.now()
    assert world is not None
    crowded = world.with_crowded({NodeName("a"): {0: CrowdedSlot(now)}})
    text = why_waiting(
        job, WaitReason.INSUFFICIENT_SLOTS, crowded, site.settings.policy, now, look(crowded, now, site.settings.policy)
    )
    assert (
        "3 of 4 suitable slots are free, of which 1 is reserved for booking exam, and 2 to share, except 1 that is too "
        "busy for more workers, but too few CPUs are free on the same node: a worker needs 2, so none would fit."
        in text
    )
