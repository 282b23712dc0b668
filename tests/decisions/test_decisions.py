"""The record is not stale, and whatever is decided otherwise shows."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, NodeName, WorkerId
from tests.decisions.__main__ import main
from tests.decisions.cases import SEEDS, missing_traces, names
from tests.decisions.decided import deciding, line_of
from tests.decisions.record import RECORDED, Recorded, load, play_chunk, save, text_file
from tests.world import World

#: Cases of every run, others each time: of fault seeds and scenarios, and of workloads that are played in a second.
SCENARIOS, WORKLOADS = 6, 1
QUICK = ("elasticdl/gpus-elastic", "elasticdl/gpus-fifo", "elasticdl/service")
EVENT = Event(
    1_000_000.0, EventKind.JOB_SHRANK, JobId(1), WorkerId("1-1"), NodeName("a"), "PREEMPTED", JobId(2), "2 to 1", 3.5
)


def test_what_is_decided_is_what_was_recorded() -> None:
    before = {line.case: line for line in load(RECORDED)}
    dice = random.SystemRandom()
    cases = dice.sample([name for name in before if name.startswith(("faults/", "scenarios/"))], SCENARIOS)
    cases += dice.sample(QUICK, WORKLOADS)
    print("cases:", *cases)
    differing = [line.case for line in play_chunk(cases) if line != before[line.case]]
    assert not differing, "see docs/contribute.md, on code that is moved"


def test_every_recorded_case_can_be_played() -> None:
    recorded = [line.case for line in load(RECORDED)]
    assert recorded == [name for name in names(SEEDS) if name in set(recorded)]
    assert set(QUICK) < set(recorded)


@pytest.mark.parametrize(
    "change",
    [
        {"at": 1_000_001.0},
        {"kind": EventKind.JOB_GREW},
        {"job_id": JobId(3)},
        {"worker_id": WorkerId("1-2")},
        {"node": NodeName("b")},
        {"cause": "FREE_SLOTS"},
        {"for_job": None},
        {"detail": "2 to 0"},
        {"amount": 3.6},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_event_that_changes_changes_the_digest(change: dict[str, object]) -> None:
    digests = set()
    for event in (EVENT, replace(EVENT, **change)):  # type: ignore[arg-type]
        with deciding() as decided:
            decided.events.append(line_of(event))
        digests.add(decided.digest)
    assert len(digests) == 2


def test_a_failed_tick_counts_and_not_the_line_that_it_failed_at() -> None:
    details = (
        "KeyError: 1, in scheduler/engine/absorb/held.py:64 (hold)",
        "KeyError: 1, in scheduler/held.py:9 (keep)",
        "",
    )
    first, moved, none = (line_of(replace(EVENT, detail=detail)) for detail in details)
    assert first == moved != none


def test_every_answer_of_discover_hosts_is_noted(tmp_path: Path) -> None:
    with deciding() as decided:
        world = World(tmp_path)
        world.node("a", slots=2)
        job_id = world.job("job", workers=(1, 2))
        world.settle()
        posting = world.board.posting(job_id)
        world.ask_cancel(job_id)
        world.settle()
        world.close()
    assert posting is not None
    shown = json.dumps([posting.text.decode(), json.loads(posting.body)])
    assert decided.hosts[-2:] == [f"board 1, job 1: {shown}", "board 1, job 1: nothing"]
    assert json.loads(decided.events[0])[1] == EventKind.JOB_SUBMITTED


def test_compare_says_what_differs_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, texts = tmp_path / "record.jsonl", tmp_path / "texts"
    case = random.SystemRandom().choice([name for name in names(0) if name.startswith("scenarios/")])
    save(record, play_chunk([case], texts))
    compare = ["compare", str(record), "--jobs", "1", "--against", str(texts)]
    assert main(compare) == 0
    assert "0 of 1 cases differ" in capsys.readouterr().out

    save(record, [Recorded(case, line.events, "another") for line in load(record)])
    first, second, *others = text_file(texts, case).read_text().splitlines()
    text_file(texts, case).write_text("\n".join((first, "another", *others)))
    assert main(compare) == 1
    assert f"{case}, line 2:\n- another\n+ {second}" in capsys.readouterr().out


def test_without_traces_their_cases_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCHED_TRACES", raising=False)
    assert main(["record", str(tmp_path / "record.jsonl"), "--only", "adaptdl/*", "--jobs", "1"]) == 0
    assert load(tmp_path / "record.jsonl") == []
    assert f"left out are the cases of adaptdl: {missing_traces()}\n" == capsys.readouterr().out
