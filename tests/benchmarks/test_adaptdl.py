"""The comparison of policies on traces that the project does not carry."""

import math
from pathlib import Path

import pytest

from benchmarks import adaptdl, traces
from benchmarks.trouble import Skipped
from tests.simulate.profiles import write_profile

JOBS = """name,time,application,num_replicas,batch_size
a,0,toy,1,20
b,30,toy,2,80
"""


@pytest.mark.slow
def test_every_policy_has_its_row_on_traces_that_are_laid_out_as_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile(tmp_path / "adaptdl" / "apps")
    for number in (1, 2):
        (tmp_path / "adaptdl" / f"workload-{number}.csv").write_text(JOBS)
    monkeypatch.setenv(traces.VARIABLE, str(tmp_path))
    figures = adaptdl.run()
    rows = {figure.what.removesuffix(": mean completion time"): figure.value for figure in figures}
    assert {case.what for case in adaptdl.CASES} < set(rows)
    assert all(value is not None and 0.0 < value < math.inf for value in rows.values())


def test_without_traces_it_says_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(traces.VARIABLE, raising=False)
    with pytest.raises(Skipped, match=r"needs --traces DIR .* branch osdi21-artifact"):
        adaptdl.run()


def test_a_directory_without_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(traces.VARIABLE, str(tmp_path))
    with pytest.raises(Skipped, match=f"{tmp_path}/adaptdl/apps: no such file or directory"):
        adaptdl.run()
