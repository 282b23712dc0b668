"""Job files: what is read, and where an error points."""

import json
from pathlib import Path

import pytest

from scheduler.cli.input.jobfile import read_job_file
from scheduler.errors import UserError

YAML = """\
name: digits
command: [python, train.py]
min_workers: 2
max_workers: 4
env:
  LEVEL: debug
  PORT: 1
labels: {team: vision}
"""


def written(directory: Path, name: str, text: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_yaml_gives_its_fields_and_their_lines(tmp_path: Path) -> None:
    document, source = read_job_file(written(tmp_path, "job.yaml", YAML))
    assert document["command"] == ["python", "train.py"]
    assert document["labels"] == {"team": "vision"}
    assert source.lines["max_workers"] == 4
    assert source.lines["env.PORT"] == 7
    assert source.lines["labels.team"] == 8


def test_toml_and_json_give_the_same_fields(tmp_path: Path) -> None:
    toml = written(tmp_path, "job.toml", 'command = ["true"]\nmin_workers = 2\n[labels]\nteam = "vision"\n')
    same = written(tmp_path, "job.json", '{"command": ["true"], "min_workers": 2, "labels": {"team": "vision"}}')
    assert read_job_file(toml)[0] == read_job_file(same)[0]


JSON = """\
{
\t"name": "digits \\ud83d\\ude00 \\/ \\"{[",
\t"command": ["python", "train.py", ":"],
\t"expected_seconds": 1e3,
\t"env": {
\t\t"DAY": "2030-01-01", "YES": "yes",
\t\t"a.b": "c"
\t},
\t"fixed": [{"name": "a"}, {"name": "b",
\t\t"command": "c"}]
}
"""


def test_json_is_read_as_json_and_gives_the_lines_of_its_keys(tmp_path: Path) -> None:
    document, source = read_job_file(written(tmp_path, "job.json", JSON))
    assert document == json.loads(JSON)
    assert (document["name"], document["expected_seconds"]) == ('digits \U0001f600 / "{[', 1000.0)
    assert source.lines == {
        "name": 2, "command": 3, "expected_seconds": 4, "env": 5, "env.DAY": 6, "env.YES": 6, "env.a.b": 7, "fixed": 9,
        "fixed.0.name": 9, "fixed.1.name": 9, "fixed.1.command": 10,
    }  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read_job_file(written(tmp_path, "job.yaml", b"\xef\xbb\xbfname: a\n"))[0] == {"name": "a"}


def test_a_complaint_points_to_the_line_of_the_key(tmp_path: Path) -> None:
    path = written(tmp_path, "job.yaml", YAML)
    _, source = read_job_file(path)
    assert source.complaint("max_workers", "too many") == f"{path}:4: max_workers: too many"
    assert source.complaint("job.env.PORT", "must be text") == f"{path}:7: env.PORT: must be text"
    assert source.complaint("command.1", "too long") == f"{path}:2: command.1: too long"
    assert source.complaint("body", "min_workers 2 exceeds max_workers 1").startswith(
        f"{path}:3: min_workers 2 exceeds"
    )


def test_a_complaint_about_toml_names_file_and_key(tmp_path: Path) -> None:
    path = written(tmp_path, "job.toml", "min_workers = 0\n")
    assert read_job_file(path)[1].complaint("min_workers", "too few") == f"{path}: min_workers: too few"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("job.yaml", "name: [a\n", ":2: not valid YAML: "),
        ("job.yaml", "a: 1\n\tb: 2\n", ":2: not valid YAML: "),
        ("job.yaml", "a: b: c\n", ":1: not valid YAML: "),
        ("job.yaml", "name: a\n---\nname: b\n", ":2: not valid YAML: "),
        ("job.yaml", "run: !!python/name:os.system\n", ":1: not valid YAML: "),
        ("job.yaml", "name: *nobody\n", ":1: not valid YAML: "),
        ("job.yaml", "", ": the file is empty"),
        ("job.yaml", "# nothing\n", ": the file is empty"),
        ("job.yaml", "- a\n- b\n", ":1: must be a mapping of fields such as"),
        ("job.yaml", "just text\n", ":1: must be a mapping of fields such as"),
        ("job.yaml", "name: a\nname: b\n", ":2: name: duplicate field, first given on line 1"),
        ("job.yaml", "env:\n  A: x\n  A: y\n", ":3: A: duplicate field, first given on line 2"),
        ("job.yaml", "1: a\n", ":1: the key '1' must be a string"),
        ("job.yaml", "? [a, b]\n: c\n", ":1: the key must be a string"),
        ("job.yaml", "env:\n  DAY: 2030-01-01\n", ":2: env.DAY: must be a string or a number, not a date"),
        ("job.yaml", "priority: .nan\n", ":1: priority: must be a string or a number"),
        ("job.yaml", "name: !!binary aGk=\n", ":1: name: must be a string or a number, not a bytes"),
        ("job.yaml", "a: " + "[" * 2000 + "]" * 2000, ": not valid YAML"),
        ("job.yaml", "\x01", ": not valid YAML"),
        ("job.yaml", b"\xff\xfe\x00", ": not UTF-8 text"),
        ("job.yaml", "a: \x00", ": binary data"),
        ("job.yaml", "a: " + "x" * 1_100_000, ": longer than 1024 KiB"),
        ("job.toml", "name = \n", ": not valid TOML: "),
        ("job.toml", "priority = " + "1" * 5000, ": not valid TOML: "),
        ("job.toml", "day = 2030-01-01\n", ": day: must be a string or a number, not a date"),
        ("job.toml", b"\xff\xfe", ": not UTF-8 text"),
        ("job.json", "command: [true]\n", ":1: not valid JSON: Expecting value (column 1)"),
        ("job.json", '{\n"name": a\n}', ":2: not valid JSON: Expecting value (column 9)"),
        ("job.json", '{"name": "a",\n}', ":2: not valid JSON: "),
        ("job.json", '{"name": "a"} # why', ":1: not valid JSON: Extra data (column 15)"),
        ("job.json", '{"name": "a"}\n{}', ":2: not valid JSON: Extra data (column 1)"),
        ("job.json", '{"name": "a",\n"name": "b"}', ":2: name: duplicate field, first given on line 1"),
        ("job.json", '{"env": {"A": 1,\n"A": 2}}', ":2: A: duplicate field, first given on line 1"),
        ("job.json", '{"priority":\nNaN}', ":1: priority: must be a string or a number"),
        ("job.json", '{"priority": ' + "1" * 5000 + "}", ": not valid JSON: "),
        ("job.json", "[" * 100_000, ": not valid JSON: "),
        ("job.json", '{"a": ' + "[" * 500 + "]" * 500 + "}", ": too many values: not a job file"),
        ("job.json", "[]", ':1: must be an object with fields such as "command": [...]'),
        ("job.json", " \n", ": the file is empty"),
        ("job.txt", "name: a\n", ": the name of a job file must end in .yaml"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_says_where(
    tmp_path: Path, name: str, text: str | bytes, said: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(UserError) as caught:
        read_job_file(path)
    assert str(caught.value).startswith(f"{path}{said}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_grows_by_aliases_is_refused(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(UserError, match="too many values: not a job file"):
        read_job_file(written(tmp_path, "job.yaml", "\n".join(rows)))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    with pytest.raises(UserError, match="is a directory, not a job file"):
        read_job_file(folder)
    with pytest.raises(UserError, match="No such file"):
        read_job_file(tmp_path / "none.yaml")
