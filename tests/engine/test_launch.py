"""What workers are told at their launch."""

from pathlib import Path

from scheduler.config import EngineSettings, Settings
from scheduler.engine.apply.launch import LaunchContext, start_workers
from scheduler.engine.ports import StartWorker
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from tests.world import World


def start_of(w: World, worker: Worker) -> StartWorker:
    process = w.cluster.process(worker.id)
    assert process is not None
    return process.start


def test_a_worker_sees_its_own_gpus_only_and_is_alone_on_its_machine_to_torch(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2)
    w.settle()
    seen = []
    for worker in w.expect(job_id, JobState.RUNNING, workers=2).workers:
        env = dict(start_of(w, worker).env)
        seen.append((env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"], env["MASTER_ADDR"]))
    assert seen == [("0", "2", "0", "1", "host-a"), ("1", "2", "0", "1", "host-a")]


def test_no_two_live_jobs_share_a_port_and_those_beyond_all_ports_pick_their_own(tmp_path: Path) -> None:
    engine = EngineSettings(master_port_first=30_000, master_port_count=3)
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=engine))
    w.node("a", slots=5)
    jobs = [w.job(f"j{number}") for number in range(5)]
    w.settle()
    ports = [w.expect(job_id, JobState.RUNNING).master_port for job_id in jobs]
    assert sorted(ports) == [0, 0, 30_000, 30_001, 30_002]
    freed = next(job_id for job_id, port in zip(jobs, ports, strict=True) if port == 30_001)
    w.ask(IntentKind.CANCEL, freed)
    w.settle()
    later = w.job("later")
    w.settle()
    assert w.expect(later, JobState.RUNNING).master_port == 30_001


def test_what_a_job_exports_goes_with_every_worker_and_is_no_part_of_what_it_says_itself(w: World) -> None:
    w.node("a", slots=4)
    export = Export((("PATH", "/venv/bin"), ("SEED", "7")), "/home/ann")
    fixed = FixedGroup(1, ("serve",), shape=WorkerShape(slots=0), env=(("SEED", "9"),))
    job_id = w.job("j", workers=2, export=export, env=(("SEED", "8"),), fixed=fixed)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    starts = [start_of(w, worker) for worker in job.all_workers]
    assert [start.export for start in starts] == [export] * 3
    assert [dict(start.env)["SEED"] for start in starts] == ["9", "8", "8"]
    assert all("PATH" not in dict(start.env) and start.workdir is None for start in starts)


def test_an_exported_variable_takes_the_place_of_a_default(w: World) -> None:
    w.node("a", slots=2)
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    environments = []
    for export in (None, Export(((name, "0"),)), Export((("OTHER", "0"),))):
        job_id = w.job("j", export=export)
        w.settle()
        job = w.expect(job_id, JobState.RUNNING, workers=1)
        environments.append(dict(start_of(w, job.workers[0]).env))
        w.ask(IntentKind.CANCEL, job_id)
        w.settle()
    assert [name in env for env in environments] == [True, False, True]


def test_workers_get_what_they_trust_the_daemon_by_as_it_is_at_their_launch(w: World) -> None:
    w.node("a", slots=1)
    job = w.job("j", env=(("SCHED_CA", "of the job"), ("HOME", "/home/ann")))
    w.settle()
    trusted = {"SCHED_CA": "first.pem"}
    context = LaunchContext("https://s:1", lambda _: "token", w.directory, trust=lambda: trusted)
    for name in ("first.pem", "second.pem"):
        trusted["SCHED_CA"] = name
        found = dict(start_workers(w.get(job), w.get(job).workers, context)[0].env)
        assert (found["SCHED_CA"], found["HOME"]) == (name, "/home/ann")
    plain = LaunchContext("http://s:1", lambda _: "token", w.directory)
    assert dict(start_workers(w.get(job), w.get(job).workers, plain)[0].env)["SCHED_CA"] == "of the job"
