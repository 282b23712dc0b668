"""Debian's Slurm on one node in a temporary directory, with partitions `low` and `high`; for comparison only.

Slots are CPUs that the node is declared to have. It is set up in its own favour where that costs nothing: no
accounting, no prolog, and the scheduler is told not to wait before it looks at new jobs.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from benchmarks.daemon import kill_all_that_mention
from benchmarks.trouble import Skipped

_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo")
_READY_SECONDS_MAX = 30.0


class Slurm:
    """Started on entry; ended, with everything it runs, on exit."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        missing = [name for name in _PROGRAMS if _path(name) is None]
        if missing:
            raise Skipped(f"no {missing[0]} here: apt-get install slurm-wlm munge")
        if os.geteuid() != 0:
            raise Skipped("Slurm's daemons need root")
        self._temporary = tempfile.TemporaryDirectory(prefix="sched-bench-slurm-", ignore_cleanup_errors=True)
        self.directory = Path(self._temporary.name)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environ = {**os.environ, "SLURM_CONF": str(self.directory / "slurm.conf"), "PATH": _PATH}
        self.version = self._run("slurmctld", "-V").strip().removeprefix("slurm-wlm ").removeprefix("slurm ")

    def __enter__(self) -> "Slurm":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def submit(self, partition: str, slots: int, script: str, array: int | None = None) -> str:
        """The job's id. The script is a line for the shell."""
        options = [f"--partition={partition}", f"--cpus-per-task={slots}", "--output=/dev/null", "--parsable"]
        if array is not None:
            options.append(f"--array=0-{array - 1}")
        return self._run("sbatch", *options, f"--chdir={self.directory}", f"--wrap={script}").strip()

    def wait_for_state(self, job: str, state: str, seconds: float) -> None:
        self._until(lambda: self._run("squeue", "-h", "-j", job, "-o", "%T").strip() == state, seconds)

    def wait_until_empty(self, seconds: float) -> None:
        """Until no job is left, running or waiting."""
        self._until(lambda: not self._run("squeue", "-h", "-o", "%i").strip(), seconds)

    def _start(self) -> None:
        for name in ("state", "spool"):
            (self.directory / name).mkdir()
        (self.directory / "slurm.conf").write_text(self._configuration())
        unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        (self.directory / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v{2 if unified else 1}\n")
        key, munge = self.directory / "munge.key", self.directory / "munge"
        munge.mkdir()
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.directory.chmod(0o755)
        files = [f"--{name}-file={munge / name}" for name in ("pid", "log", "seed")]
        # munged insists on files of its own user, and on a socket directory that everybody may enter
        self._serve("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge / 'socket'}", *files)
        self._until((munge / "socket").exists, _READY_SECONDS_MAX)
        self._serve("slurmctld", "-D", "-c", "-f", self._environ["SLURM_CONF"])
        self._serve("slurmd", "-D", "-f", self._environ["SLURM_CONF"])
        self._until(lambda: self._run("sinfo", "-h", "-o", "%t", check=False).split() == ["idle"], _READY_SECONDS_MAX)

    def _configuration(self) -> str:
        host, here = socket.gethostname().split(".")[0], self.directory
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        return f"""
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={_free_port()}
SlurmdPort={_free_port()}
AuthType=auth/munge
AuthInfo=socket={here}/munge/socket
CredType=cred/munge
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmdParameters=config_overrides
MaxArraySize=2001
NodeName={host} NodeAddr=127.0.0.1 CPUs={self._slots} RealMemory={memory} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 PreemptMode=CANCEL
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF
"""

    def _serve(self, name: str, *arguments: str) -> None:
        program = _path(name)
        assert program is not None
        with open(self.directory / f"{name}.out", "ab") as out:
            self._processes.append(
                subprocess.Popen(
                    [program, *arguments],
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )

    def _run(self, name: str, *arguments: str, check: bool = True) -> str:
        command = [_path(name) or name, *arguments]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode != 0:
            raise Skipped(f"{name}: {done.stderr.strip()[:200]}")
        return done.stdout

    def _until(self, happened: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            ended = next((p for p in self._processes if p.poll() is not None), None)
            if ended is not None or time.monotonic() > deadline:
                raise Skipped(f"Slurm does not run here: {self._last_words()}")
            time.sleep(0.05)

    def _last_words(self) -> str:
        lines = [path.read_text(errors="replace").strip().splitlines()[-1:] for path in self.directory.glob("*.out")]
        return "; ".join(line for last in lines for line in last)[:300] or "its daemons say nothing"

    def _end(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for process in reversed(self._processes):
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            # Daemons of jobs (slurmstepd) and the jobs themselves carry the directory in their environment.
            kill_all_that_mention(str(self.directory))
            self._temporary.cleanup()
        finally:
            signal.signal(signal.SIGINT, before)


_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _path(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
