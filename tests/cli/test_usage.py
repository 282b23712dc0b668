"""`sched usage`: accounts as a table, CSV, JSON or a page, with prices of a file."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.commands.usage import write_csv
from scheduler.cli.input.prices import read_prices
from scheduler.cli.render.usagepage import page
from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import Daemon

Sched = Callable[..., Call]


def test_accounts_are_printed_in_every_format(sched: Sched, daemon: Daemon, tmp_path: Path) -> None:
    job = submitted(sched, "counted", command="true")
    until(daemon, job, "SUCCEEDED")
    view = sched("usage", "--by", "user,job", "--format", "json").ok().document
    assert view["by"] == ["user", "job"]
    (mine,) = (row for row in view["rows"] if row["job"] == job)
    assert mine["held_slot_seconds"] > 0
    table = sched("usage", "--by", "user,job").ok().out
    assert all(word in table for word in ("USER", "JOB", "HELD", "LENT", "LOST"))
    assert "COST" not in table
    rows = list(csv.DictReader(io.StringIO(sched("usage", "--by", "job", "--format", "csv").ok().out)))
    assert str(job) in [row["job"] for row in rows]
    assert list(rows[0]) == ["job", "held_slot_hours", "lent_slot_hours", "lost_slot_hours"]
    prices = tmp_path / "prices.toml"
    prices.write_text('H100 = 2.5\n"*" = 3600.0\n')
    rows = list(
        csv.DictReader(io.StringIO(sched("usage", "--by", "job", "--prices", str(prices), "--format", "csv").ok().out))
    )
    (priced,) = (row for row in rows if row["job"] == str(job))
    assert float(priced["cost"]) == pytest.approx(mine["held_slot_seconds"], rel=1e-3, abs=1e-3)
    html = sched("usage", "--by", "job", "--prices", str(prices), "--format", "html").ok().out
    assert html.startswith("<!doctype html>")
    assert all(word in html for word in ("Slot-hours", f">{job}<", "Cost", "TOTAL"))


def usage_of(user: str) -> dict[str, Any]:
    held = {"held_slot_seconds": 3600.0, "lent_slot_seconds": 0.0, "lost_slot_seconds": 0.0, "cost": None}
    return {"by": ["queue", "user"], "rows": [{"queue": "lab", "user": user, **held}]}


@pytest.mark.parametrize(
    ("user", "cell"),
    [
        ('=HYPERLINK("http://a","b")', '\'=HYPERLINK("http://a","b")'),
        ("+1", "'+1"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\t=1", "\\t=1"),
        ("\r=1", "\\r=1"),
        ("ann-lee@lab", "ann-lee@lab"),
        ("", ""),
    ],
)
def test_no_name_is_a_formula_to_a_spreadsheet(user: str, cell: str) -> None:
    written = io.StringIO()
    write_csv(usage_of(user), written)
    [row] = csv.DictReader(io.StringIO(written.getvalue()))
    assert (row["queue"], row["user"], row["held_slot_hours"]) == ("lab", cell, "1.0")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("H100 = 'dear'", "p.toml", "the price of 'H100' must be a number from 0 on, not 'dear'"),
        ("H100: -1", "p.yaml", "p.yaml:1: the price of 'H100' must be a number from 0 on, not -1"),
        ("H100: yes", "p.yaml", "p.yaml:1: the price of 'H100' must be a number from 0 on, not True"),
        ("A: 1\nH100: " + "9" * 400, "p.yaml", ":2: the price of 'H100' must be a number from 0 on, not one that"),
        ("H100 = " + "9" * 400, "p.toml", "the price of 'H100' must be a number from 0 on, not one that large"),
        ("H100 = " + "9" * 5000, "p.toml", "not valid TOML"),
        ("H100: 2030-13-45", "p.yaml", "not valid YAML: month must be in 1..12"),
        ("H100: 1\nL4: 2\nH100: 3", "p.yaml", "p.yaml:3: H100: duplicate field, first given on line 1"),
        ('{"H100": 1, "H100": 3}', "p.json", "p.json:1: H100: duplicate field, first given on line 1"),
        ("80: 1", "p.yaml", "p.yaml:1: the key '80' must be a string: put it in quotes"),
        ("- 1", "p.yaml", "p.yaml:1: must be a mapping of GPU types and their prices, such as `H100: 2.5`"),
        (b"\xff", "p.toml", "p.toml: not UTF-8 text: not a file of prices"),
        ("H100 = ", "p.toml", "not valid TOML"),
        ("[", "p.yaml", "not valid YAML"),
        ("", "p.yaml", "p.yaml: the file is empty"),
        ("", "p.toml", "p.toml: must name GPU types and their prices"),
    ],
)
def test_a_file_of_prices_that_is_none_is_refused_in_one_line(
    alone: Sched, tmp_path: Path, text: str | bytes, name: str, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    alone("usage", "--prices", str(path)).failed(2, said)
    alone("usage", "--prices", str(tmp_path / "none.toml")).failed(2, "No such file")


def test_prices_are_read_in_every_form(tmp_path: Path) -> None:
    for name, text in (
        ("p.toml", '\ufeffH100 = 2\n"*" = 0.5\n'),
        ("p.yaml", "\ufeffH100: 2\n'*': 0.5\n"),
        ("p.json", '{"H100": 2,\n\t"*": 0.5}'),
        ("prices", "{H100: 2, '*': 0.5}"),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert read_prices(path) == {"H100": 2.0, "*": 0.5}


def test_what_cannot_be_summed_by_is_refused_in_one_line(alone: Sched) -> None:
    alone("usage", "--by", "colour").failed(2, "--by: must be some of queue, user, gpu_type, job, not 'colour'")


@pytest.mark.usefixtures("berlin")
def test_a_page_over_a_change_of_clocks_says_in_which_zone_each_end_is() -> None:
    set_back = 1792890000.0
    text = page({"since": set_back - 7200.0, "until": set_back + 7200.0, "begins_at": 0.0, "by": [], "rows": []})
    assert "<p>2026-10-25 01:00:00 (UTC+02:00) to 2026-10-25 04:00:00 (UTC+01:00)</p>" in text


def test_names_of_users_are_no_markup() -> None:
    row = {"queue": None, "user": "<b>", "gpu_type": None, "job": None, "cost": None}
    amounts = {f"{name}_slot_seconds": 3600.0 for name in ("held", "lent", "lost")}
    view = {"since": 0.0, "until": 7200.0, "begins_at": 0.0, "by": ["user"], "rows": [{**row, **amounts}]}
    document = page(view)
    assert "<b>" not in document
    assert "&lt;b&gt;" in document
    assert "Nothing was held" in page({**view, "rows": []})
