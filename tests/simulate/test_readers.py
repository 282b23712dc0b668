"""Workload and node files: what is read, and that whatever is wrong is said in one line with its place."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import UserError
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.read import Source, read_workload
from scheduler.simulate.speed import Amdahl
from scheduler.simulate.work import seconds_alone
from scheduler.simulate.workload import Workload

CSV = """\
name,at_seconds,work_seconds,min_workers,max_workers,preferred_workers,speed,priority,node_selector,preemptible
late,60,100,,,,,,,
early,0.5,3600,1,8,4,amdahl 0.1,7,zone=a rack=2,no
"""
YAML = """\
jobs:
  - {name: late, at_seconds: 60, work_seconds: 100}
  - name: early
    at_seconds: 0.5
    work_seconds: 3600
    min_workers: 1
    max_workers: 8
    preferred_workers: 4
    speed: amdahl 0.1
    priority: 7
    node_selector: {zone: a, rack: "2"}
    preemptible: false
"""
HEADER = "name,at_seconds,work_seconds,min_workers,max_workers,speed"
ELASTICFLOW = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
b,1100,10,vgg,9,64,4,50
a,1000,10,vgg,9,64,1,80
"""


def written(directory: Path, text: str | bytes, name: str = "w.csv") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(directory: Path, text: str | bytes, name: str = "w.csv") -> Workload:
    return read_workload(str(written(directory, text, name)), Source())


def test_a_table_gives_its_jobs_in_the_order_of_their_times(tmp_path: Path) -> None:
    early, late = read(tmp_path, CSV).submissions
    assert (early.at, early.work.total, early.spec.name) == (0.5, 3600.0, "early")
    assert (early.spec.min_workers, early.spec.max_workers, early.spec.preferred_workers) == (1, 8, 4)
    assert early.work.pace((3,), 0.0).per_second == pytest.approx(Amdahl(0.1)(3))
    assert early.spec.shape.node_selector == (("rack", "2"), ("zone", "a"))
    assert (early.spec.priority, early.spec.preemptible) == (7, False)
    assert (late.spec.min_workers, late.spec.max_workers, late.spec.priority) == (1, 1, 0)


def test_yaml_gives_the_same_as_a_table(tmp_path: Path) -> None:
    assert read(tmp_path, YAML, "w.yaml") == read(tmp_path, CSV)


def test_blanks_around_names_of_columns_do_not_count(tmp_path: Path) -> None:
    plain = read(tmp_path, "name,at_seconds,work_seconds\na,1,2\n")
    assert read(tmp_path, "name, at_seconds ,\twork_seconds\na, 1, 2\n") == plain
    assert read(tmp_path, ELASTICFLOW.replace(",", ", ")) == read(tmp_path, ELASTICFLOW)


def test_one_worker_needs_what_the_file_says_whatever_the_unit_of_the_measured_speeds(tmp_path: Path) -> None:
    text = "name,at_seconds,work_seconds,max_workers,speed\na,0,100,2,1=250 2=475\nb,0,100,2,2=1.9 4=3.4\n"
    first, second = (each.work for each in read(tmp_path, text).submissions)
    assert [seconds_alone(first, (size,)) for size in (1, 2)] == pytest.approx([100.0, 100.0 * 250 / 475])
    assert [seconds_alone(second, (size,)) for size in (1, 2)] == pytest.approx([100.0, 50.0])


@pytest.mark.parametrize(("text", "name"), [(CSV, "w.csv"), (YAML, "w.yaml")])
def test_jobs_that_name_no_speed_have_that_of_the_command(tmp_path: Path, text: str, name: str) -> None:
    path = written(tmp_path, text, name)
    early, late = read_workload(str(path), Source(speedup=Amdahl(0.5))).submissions
    assert late.work.pace((4,), 0.0).per_second == pytest.approx(Amdahl(0.5)(4))
    assert early.work.pace((3,), 0.0).per_second == pytest.approx(Amdahl(0.1)(3))


def test_elasticflow_jobs_last_as_long_as_they_did_at_the_size_that_they_had(tmp_path: Path) -> None:
    first, second = read(tmp_path, ELASTICFLOW).submissions
    assert (first.at, first.spec.max_workers, first.work.total) == (0.0, 1, 80.0)
    assert (second.at, second.spec.max_workers, second.work.total) == (100.0, 4, 200.0)
    on_unix_time = read(tmp_path, ELASTICFLOW.replace("1100", "1700000100").replace("1000", "1700000000"))
    assert [each.at for each in on_unix_time.submissions] == [0.0, 100.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": the file is empty"),
        ("\n\n", ": the file is empty"),
        ("color,size\n1,2\n", ":1: unknown columns: needs columns name,at_seconds,work_seconds, or "),
        ("name,at_seconds\na,0\n", ":1: work_seconds: missing column: the header must contain name,at_seconds,"),
        (f"{HEADER}\n", ": no rows after the header"),
        (f"{HEADER},colour\na,0,1,1,1,linear,red\n", ":1: colour: unknown column: use name, at_seconds, "),
        (f"{HEADER},\na,0,1,1,1,linear,\n", ":1: column 7, which has no name: unknown column: use name, "),
        (f"{HEADER},name\na,0,1,1,1,linear,b\n", ":1: name: duplicate column"),
        (f"{HEADER}\na,0,1,1,1,linear\nb,0,1\n", ":3: has 3 fields, but the header has 6"),
        (f"{HEADER}\na,soon,1,1,1,linear\n", ":2: at_seconds: must be a number, "),
        (f"{HEADER}\na,-1,1,1,1,linear\n", ":2: at_seconds: must be at least 0, not '-1'"),
        (f"{HEADER}\na,nan,1,1,1,linear\n", ":2: at_seconds: must be a finite number, not 'nan'"),
        (f"{HEADER}\na,0,inf,1,1,linear\n", ":2: work_seconds: must be a finite number, not 'inf'"),
        (f"{HEADER}\na,0,0,1,1,linear\n", ":2: work_seconds: must be at least 0.000001, not '0'"),
        (f"{HEADER}\na,0,1,1.5,2,linear\n", ":2: min_workers: must be an integer"),
        (f"{HEADER}\na,0,1,4,2,linear\n", ":2: min_workers 4 exceeds max_workers 2"),
        (f"{HEADER}\na,0,1,1,1,fast\n", ":2: speed: 'fast' must be linear, amdahl SHARE with a share of 0 to 1, or "),
        (f"{HEADER}\n,0,1,1,1,linear\n", ":2: name: is required"),
        (f"{HEADER}\na,0,1,1,1,linear\n\nb,0,1,1,1,linear\na,0,1,1,1,linear\n", ":5: name: 'a' is a duplicate, first"),
        (f'{HEADER}\n"a,0,1,1,1,linear\n', ":2: not valid CSV: "),
        (f"{HEADER}\n{'x' * 200_000},0,1,1,1,linear\n", ":2: not valid CSV: field larger than field limit"),
        (b"\xff\xfe\x00", ": not UTF-8 text"),
        (b"name,at_seconds\x00", ": binary data, not text"),
    ],
)
def test_a_bad_table_is_refused_in_one_line_that_says_where(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'w.csv'}{said}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": the file is empty"),
        ("jobs:\n  - {name: a, at_seconds: 0}\n", ":2: work_seconds: is required"),
        ("jobs:\n  - name: a\n    at_seconds: soon\n", ":3: at_seconds: must be a number, not 'soon'"),
        ("jobs:\n  - {name: a, at_seconds: 0, work_seconds: 1, colour: red}\n", ":2: colour: unknown field"),
        ("jobs:\n  - {name: a, at_seconds: 0, work_seconds: .nan}\n", ":2: work_seconds: must be a finite"),
        ("jobs:\n  - {name: a, at_seconds: true, work_seconds: 1}\n", ":2: at_seconds: must be a number"),
        ("jobs:\n  - {name: a, name: b}\n", ":2: name: duplicate field, first given on line 2"),
        ("jobs: 3\n", ":1: must be a list of jobs"),
        ("work: []\n", ":1: work: unknown field: give a list of jobs"),
        ("jobs: []\n", ": the list of jobs is empty"),
        ("- a\n", ":1: must be a mapping"),
        ("- {1: a}\n", ":1: the key must be a string"),
        ("jobs: [\n", ":2: not valid YAML: "),
        ("- name: !!python/name:os.system\n", ":1: not valid YAML: "),
    ],
)
def test_bad_yaml_is_refused_in_one_line_that_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, "w.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'w.yaml'}{said}")
    assert len(str(caught.value).splitlines()) == 1


CELLS = st.sampled_from(["a", "0", "1", "-1", "1e400", "nan", "", " ", '"', "2=2", "linear", "amdahl 0.1", "\u2028"])
ROWS = st.lists(st.lists(CELLS, min_size=4, max_size=7).map(",".join), max_size=4)


@given(ROWS.map(lambda rows: "\n".join([HEADER, *rows])) | st.text(max_size=80), st.sampled_from(["w.csv", "w.yaml"]))
def test_no_file_does_anything_but_give_jobs_or_a_users_error(text: str, name: str) -> None:
    with TemporaryDirectory() as directory, suppress(UserError):
        assert read(Path(directory), text.encode(errors="replace"), name).submissions


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory"):
        read_workload(str(tmp_path), Source())
    with pytest.raises(UserError, match="No such file"):
        read_workload(str(tmp_path / "none.csv"), Source())


def test_nodes_are_a_number_of_equal_ones_or_the_rows_of_a_file(tmp_path: Path) -> None:
    nodes = read_nodes("3x4", "--nodes")
    assert [(node.name, node.slots) for node in nodes] == [("node-1", 4), ("node-2", 4), ("node-3", 4)]
    assert [node.labels for node in read_nodes("2x9:zone", "--nodes")] == [(("zone", "1"),), (("zone", "2"),)]
    table = "name,slots,gpu_type,labels,oversell\na,4,A100,zone=a rack=1,1.5\nb,2,,,\n"
    first, second = read_nodes(str(written(tmp_path, table, "nodes.csv")), "--nodes")
    assert (first.gpu_type, first.labels, first.oversell) == ("A100", (("rack", "1"), ("zone", "a")), 1.5)
    assert (second.slots, second.gpu_type, second.oversell) == (2, None, 1.0)
    yaml = "nodes:\n  - {name: b, slots: 2}\n"
    assert read_nodes(str(written(tmp_path, yaml, "nodes.yaml")), "--nodes") == (second,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0x4", "must be 1 to 100000 nodes of 1 to 4096 slots"),
        ("4x99999", "must be 1 to 100000 nodes of 1 to 4096 slots"),
        ("4", "is neither a file nor a size such as 16x4"),
        ("4" * 300, "is neither a file nor a size such as 16x4"),
        ("x", "is neither a file nor a size such as 16x4"),
    ],
)
def test_nodes_that_nobody_can_mean_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_nodes(text, "--nodes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,slots,labels\na,4,zone\n", ":2: labels: 'zone' must have the form KEY=VALUE"),
        ("name,slots\na,0\nb,0\n", ": none of the nodes has a slot"),
    ],
)
def test_a_bad_file_of_nodes_is_refused_in_one_line_that_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text, "nodes.csv")
    with pytest.raises(UserError) as caught:
        read_nodes(str(path), "--nodes")
    assert str(caught.value).startswith(f"{path}{said}")
