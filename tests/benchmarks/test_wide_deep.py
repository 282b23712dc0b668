"""The parts of the benchmark that compares AUCs: its records, the AUC, the statistics, the changes and the picture."""

import random
import statistics
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from scipy import stats

from benchmarks import wide_deep
from benchmarks.clicks import BUCKETS, CROSSED, FIELDS, VALUES, auc, draw_clicks
from benchmarks.paired import Difference, difference
from benchmarks.wide_deep_picture import draw

RECORDS = 20_000


def test_records_follow_from_the_seed_alone() -> None:
    one, again, other = draw_clicks(500, 1), draw_clicks(500, 1), draw_clicks(500, 2)
    assert torch.equal(one.crosses, again.crosses)
    assert torch.equal(one.clicked, again.clicked)
    assert not torch.equal(one.categories, other.categories)


def test_each_field_and_each_cross_has_numbers_of_its_own() -> None:
    clicks = draw_clicks(RECORDS, 3)
    fields = clicks.categories // VALUES
    assert torch.equal(fields, torch.arange(FIELDS).expand_as(fields))
    crosses = clicks.crosses // BUCKETS
    assert torch.equal(crosses, torch.arange(len(CROSSED)).expand_as(crosses))


def test_a_cross_has_the_same_bucket_wherever_its_values_are_the_same() -> None:
    clicks = draw_clicks(RECORDS, 3)
    first, second = (clicks.categories[:, field].tolist() for field in CROSSED[0])
    buckets: dict[tuple[int, int], set[int]] = {}
    for *values, bucket in zip(first, second, clicks.crosses[:, 0].tolist(), strict=True):
        buckets.setdefault((values[0], values[1]), set()).add(bucket)
    assert all(len(found) == 1 for found in buckets.values())
    assert len({bucket for found in buckets.values() for bucket in found}) > BUCKETS // 2


def test_clicks_come_as_often_as_the_odds_say() -> None:
    clicks = draw_clicks(RECORDS, 4)
    for part in clicks.odds.argsort().chunk(10):
        expected = clicks.odds[part].sigmoid()
        error = float((expected * (1 - expected)).mean() / len(part)) ** 0.5
        assert abs(float(clicks.clicked[part].mean() - expected.mean())) < 4 * error


def test_nothing_orders_records_better_than_the_odds_they_were_drawn_from() -> None:
    clicks = draw_clicks(RECORDS, 5)
    generator = torch.Generator().manual_seed(0)
    best = auc(clicks.odds, clicks.clicked)
    assert 0.8 < best < 0.95
    for spread in (0.3, 1.0, 3.0):
        noise = spread * torch.randn(RECORDS, generator=generator)
        assert auc(clicks.odds + noise, clicks.clicked) < best


@pytest.mark.parametrize("levels", [0, 10, 1], ids=["all different", "many equal", "all equal"])
def test_the_auc_is_scikit_learn_s(levels: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    clicks = draw_clicks(2_000, 6)
    scores = clicks.odds if not levels else (clicks.odds.sigmoid() * levels).floor()
    assert auc(scores, clicks.clicked) == pytest.approx(metrics.roc_auc_score(clicks.clicked, scores), abs=1e-12)


def test_an_auc_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="records that were clicked and records that were not"):
        auc(torch.arange(3.0), torch.ones(3))


def test_the_difference_is_student_s() -> None:
    values, others = [0.85, 0.84, 0.86, 0.83, 0.85], [0.84, 0.85, 0.84, 0.82, 0.85]
    gaps = [a - b for a, b in zip(values, others, strict=True)]
    mean, error = statistics.mean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
    found = difference(values, others)
    assert found.mean == pytest.approx(mean)
    reach = 2.7764 * error  # Student's t at 97.5 % and 4 degrees of freedom
    assert (found.low, found.high) == (pytest.approx(mean - reach, abs=1e-6), pytest.approx(mean + reach, abs=1e-6))
    assert found.p == pytest.approx(2 * stats.t.sf(mean / error, 4))


def test_pairs_that_all_differ_alike_need_no_test() -> None:
    assert difference([0.5, 0.75], [0.5, 0.75]) == Difference(0.0, 0.0, 0.0, p=1.0)
    assert difference([0.75, 1.0], [0.5, 0.75]) == Difference(0.25, 0.25, 0.25, p=0.0)


def test_differences_need_pairs() -> None:
    with pytest.raises(ValueError, match="at least two pairs"):
        difference([0.5], [0.5])


def test_changes_are_in_order_and_each_is_one() -> None:
    for seed in range(50):
        found = wide_deep.changes(seed, 240)
        steps, sizes = zip(*found, strict=True)
        assert list(steps) == sorted(steps)
        assert steps[-1] < 240 * 4 // 5
        assert all(a != b for a, b in pairwise((wide_deep.FIXED, *sizes)))
        assert set(sizes) <= set(wide_deep.SIZES)
        assert found == wide_deep.changes(seed, 240)


def lines(seed: int) -> list[dict[str, float]]:
    """What a training might have written."""
    choices = random.Random(seed)
    steps: list[dict[str, float]] = [
        {
            "step": step,
            "size": 4 if step < 5 else 2,
            "samples": 10 * step,
            "auc": 0.5 + step / 30 + choices.random() / 50,
        }
        for step in range(1, 10)
    ]
    del steps[3]["auc"]
    return [*steps, {"step": 10, "size": 2, "samples": 90, "auc": 0.8, "wrong": 0}]


def test_a_course_is_read_from_what_a_training_wrote() -> None:
    course = wide_deep.course_of(lines(1))
    assert (len(course.curve), course.curve[-1], course.resizes, course.wrong) == (9, (90, 0.8), 1, 0)


def test_a_training_that_did_not_come_to_its_end_is_no_course() -> None:
    with pytest.raises(RuntimeError, match="does not tell of its end"):
        wide_deep.course_of(lines(1)[:-1])


def test_the_picture_shows_each_kind_of_training(tmp_path: Path) -> None:
    courses = {name: [wide_deep.course_of(lines(seed)) for seed in (1, 2)] for name in wide_deep.POLICIES}
    path = tmp_path / "curves.svg"
    draw(courses, 0.9, path)
    text = path.read_text()
    assert all(f"<!-- {name} (mean) -->" in text for name in wide_deep.POLICIES)
    assert "<!-- best possible -->" in text
