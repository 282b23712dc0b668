"""Groups whose collectives run on the GPU: who carries them, and how a rank gets out of one that cannot end.

All ranks share one GPU. NCCL refuses that unless it takes them for ranks of several hosts, so some tests tell it that
they are: its transport is then TCP, as between machines.
"""

import re
import signal
from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.elastic.processes import environment, python
from tests.gpu.rank import TIMEOUT_SECONDS

RANK = str(Path(__file__).with_name("rank.py"))
#: What ending a group may take, on a busy machine.
FREED_SECONDS_MAX = 6.0


def run(size: int, event: str, backend: str, folder: Path, seconds_max: float = 90.0) -> tuple[list[str], list[int]]:
    """Outputs and exit codes of all ranks."""
    commands = [[RANK, str(rank), str(size), event, backend, str(folder)] for rank in range(size)]
    with python(*commands, env=[environment()] * size) as ranks:
        outputs = [rank.communicate(timeout=seconds_max)[0] for rank in ranks]
        codes = [rank.returncode for rank in ranks]
    print("\n".join(outputs))
    return outputs, codes


def freed_after(output: str) -> float:
    """Seconds until a rank was out of its collective."""
    found = re.search(r"freed after (-?[\d.]+) s", output)
    assert found is not None, output
    return float(found[1])


def test_one_rank_uses_nccl(cuda: Gpu, tmp_path: Path) -> None:
    outputs, codes = run(1, "nothing", "as it is", tmp_path)
    assert codes == [0]
    assert "cuda:nccl" in outputs[0]
    assert "sum 1.0" in outputs[0]


@pytest.mark.parametrize(("backend", "used"), [("as it is", "gloo"), ("nccl", "nccl")])
def test_ranks_that_share_a_gpu_use_gloo_and_others_nccl(cuda: Gpu, backend: str, used: str, tmp_path: Path) -> None:
    outputs, codes = run(3, "nothing", backend, tmp_path)
    assert codes == [0, 0, 0]
    assert all(f"cuda:{used}" in output and "sum 3.0" in output for output in outputs)


@pytest.mark.parametrize("backend", ["as it is", "nccl"])
def test_a_death_in_a_collective_on_the_gpu_frees_the_others(cuda: Gpu, backend: str, tmp_path: Path) -> None:
    outputs, codes = run(3, "dies", backend, tmp_path)
    assert codes == [0, 0, -signal.SIGKILL]
    for output in outputs[:2]:
        assert freed_after(output) < FREED_SECONDS_MAX
        assert "then 2.0\nends well" in output


@pytest.mark.slow
def test_who_survived_a_death_lives_on(cuda: Gpu, tmp_path: Path) -> None:
    outputs, codes = run(3, "dies-and-long-after", "nccl", tmp_path, 150.0)
    assert codes == [0, 0, -signal.SIGKILL], outputs


@pytest.mark.parametrize("backend", ["as it is", "nccl"])
def test_a_rank_that_hangs_frees_the_others_after_the_timeout(cuda: Gpu, backend: str, tmp_path: Path) -> None:
    outputs, codes = run(3, "hangs", backend, tmp_path)
    assert codes == [0, 0, 0]
    for output in outputs[:2]:
        assert TIMEOUT_SECONDS - 1.0 < freed_after(output) < TIMEOUT_SECONDS + FREED_SECONDS_MAX
        assert "then 2.0\nends well" in output


def test_a_death_while_gpus_are_connected_frees_the_others(cuda: Gpu, tmp_path: Path) -> None:
    outputs, codes = run(3, "dies-while-connecting", "nccl", tmp_path)
    assert codes == [0, 0, -signal.SIGKILL]
    for output in outputs[:2]:
        assert freed_after(output) < FREED_SECONDS_MAX
        assert "then 2.0\nends well" in output
