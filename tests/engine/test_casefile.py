"""A world that broke the planner is kept as a test case."""

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engine import replay_case
from scheduler.engine.replay_case import Case, load_case, save_case
from scheduler.model import layered
from scheduler.model.export import Export
from scheduler.model.layered import Layered
from tests.world import World


def _case(w: World) -> Case:
    w.node("a", slots=2, labels=(("zone", "x"),))
    w.job("j", workers=(1, 2), selector={"zone": "x"})
    w.settle()
    w.job("waiting", priority=3, workers=2)
    w.tick()
    assert w.engine.world is not None
    return Case(w.engine.world, w.clock.now(), w.settings.policy, ("I1: too much",))


def test_a_case_reads_back_as_it_was_saved(w: World, tmp_path: Path) -> None:
    case = _case(w)
    path = save_case(tmp_path / "cases", case)
    assert path is not None
    assert load_case(path) == case


def test_a_case_of_many_jobs_reads_back_as_it_was_saved(
    w: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "COPIED_MAX", -1)  # as if there were thousands
    case = _case(w)
    assert isinstance(case.world.queued, Layered)
    path = save_case(tmp_path / "cases", case)
    assert path is not None
    assert load_case(path) == case


def test_a_case_keeps_nothing_of_submitters_environments(w: World, tmp_path: Path) -> None:
    export = Export((("HF_TOKEN", "not-to-be-read"),), "/home/ann")
    w.job("later", workers=8, export=export)
    w.job("now", export=export)
    case = _case(w)
    path = save_case(tmp_path / "cases", case)
    assert path is not None
    assert "not-to-be-read" not in path.read_text()
    world = load_case(path).world
    assert {job.spec.export for job in (*world.queued.values(), *world.active.values())} == {None}
    assert (len(world.queued), len(world.active)) == (len(case.world.queued), len(case.world.active))


def test_the_same_case_is_saved_once_and_their_number_is_bounded(
    w: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _case(w)
    assert save_case(tmp_path, case) is not None
    assert save_case(tmp_path, case) is None
    monkeypatch.setattr(replay_case, "CASES_MAX", 2)
    assert save_case(tmp_path, replace(case, now=1.0)) is not None
    assert save_case(tmp_path, replace(case, now=2.0)) is None
