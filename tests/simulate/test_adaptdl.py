"""Training with measured profiles: the points of the profile, and the rules of batch sizes between them."""

from pathlib import Path

import pytest

from scheduler.errors import UserError
from scheduler.simulate.adaptdl_profile import Application
from scheduler.simulate.adaptdl_work import AdaptdlWork, FixedBatch, TunedBatch, step_of
from scheduler.simulate.read import Source, read_workload
from scheduler.simulate.work import seconds_alone
from tests.simulate.profiles import PROGRESS, step_seconds, write_profile


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "profiles")


@pytest.fixture
def toy(profiles: Path) -> Application:
    return Application(profiles / "toy")


def test_measured_placements_are_taken_as_they_are_whatever_the_order_of_their_nodes(toy: Application) -> None:
    assert toy.step_seconds((4,), 20) == pytest.approx(step_seconds(1, 20))
    assert toy.step_seconds((4, 4), 25) == pytest.approx(step_seconds(2, 25))


def test_placements_that_were_not_measured_lie_between_those_that_were(toy: Application) -> None:
    assert toy.step_seconds((2, 3, 2, 3, 2, 2), 30) == pytest.approx(step_seconds(6, 30))
    assert toy.step_seconds((3, 2, 2, 3, 2, 2), 30) == toy.step_seconds((2, 3, 2, 3, 2, 2), 30)


def test_the_batch_is_divided_and_what_does_not_fit_is_accumulated(toy: Application) -> None:
    step, sync = step_seconds(1, 40)
    assert step_of(toy, (2,), 80).batch == 80
    assert step_of(toy, (2,), 80).seconds == pytest.approx(step)
    accumulated = step_of(toy, (1,), 160)
    assert accumulated.batch == 160
    assert accumulated.seconds == pytest.approx(step + 3 * (step - sync))


def test_one_worker_with_more_than_the_smallest_batch_accumulates_at_least_once(toy: Application) -> None:
    step, sync = step_seconds(1, 20)
    assert step_of(toy, (1,), 40).seconds == pytest.approx(step + (step - sync))
    assert step_of(toy, (1,), 20).seconds == pytest.approx(step)


def test_progress_per_step_follows_the_gradient_noise_of_the_epoch(toy: Application) -> None:
    work = AdaptdlWork(toy, FixedBatch(80))
    step, _ = step_seconds(1, 20)
    assert work.total == PROGRESS[-1]
    assert work.pace((4,), 0.0).per_second == pytest.approx(1.0 / step)  # no noise: as one step of the smallest batch
    assert work.pace((4,), 150.0).per_second == pytest.approx(4.0 / step)  # nothing but noise: as four of them
    assert seconds_alone(work, (4,)) == pytest.approx(100 * step + 100 * step / 4)


def test_a_tuning_job_trains_with_the_batch_that_makes_most_progress(toy: Application) -> None:
    tuned = AdaptdlWork(toy, TunedBatch())
    for batch in (20, 40, 80, 120, 160):
        fixed = AdaptdlWork(toy, FixedBatch(batch))
        for done in (0.0, 150.0):
            if batch // 2 >= toy.local_batch_min:
                assert tuned.pace((2,), done).per_second >= 0.99 * fixed.pace((2,), done).per_second
    assert tuned.pace((2,), 150.0).efficiency == pytest.approx(1.0)
    assert tuned.pace((2,), 0.0).samples_per_second is not None


def test_jobs_get_as_many_workers_as_their_batch_feeds(tmp_path: Path, profiles: Path) -> None:
    table = tmp_path / "w.csv"
    table.write_text("name,time,application,num_replicas,batch_size\na,5,toy,3,160\nb,0,toy,9,20\n")
    workload = read_workload(str(table), Source(profiles=profiles))
    first, second = workload.submissions
    assert [first.spec.name, second.spec.name] == ["b", "a"]
    assert (second.spec.min_workers, second.spec.max_workers, second.spec.preferred_workers) == (1, 16, 3)
    assert (first.spec.max_workers, first.spec.preferred_workers) == (2, 2)
    assert workload.node_slots_max == 4


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,0,other,1,20", ":2: application: 'other' has no profile: "),
        ("a,0,toy,1,5", ":2: batch_size: 5 is not between 20 and 160, as measured"),
        ("a,0,toy,0,20", ":2: num_replicas: must be at least 1, not '0'"),
        ("a,0,toy,1,20\na,0,toy,1,20", ":3: name: 'a' is a duplicate, first given on line 2"),
    ],
)
def test_a_job_that_the_profiles_do_not_know_is_refused(tmp_path: Path, profiles: Path, row: str, said: str) -> None:
    table = tmp_path / "w.csv"
    table.write_text(f"name,time,application,num_replicas,batch_size\n{row}\n")
    with pytest.raises(UserError) as caught:
        read_workload(str(table), Source(profiles=profiles))
    assert str(caught.value).startswith(f"{table}{said}")


def test_without_profiles_the_option_is_named(tmp_path: Path) -> None:
    table = tmp_path / "w.csv"
    table.write_text("name,time,application,num_replicas,batch_size\na,0,toy,1,20\n")
    with pytest.raises(UserError, match="give the directory of their profiles with --profiles"):
        read_workload(str(table), Source())
    with pytest.raises(UserError, match="no such directory"):
        read_workload(str(table), Source(profiles=tmp_path / "none"))


@pytest.mark.parametrize("name", ["placements.csv", "scalability.csv", "validation-20.csv"])
def test_a_broken_profile_is_refused_by_file_and_line(profiles: Path, name: str) -> None:
    path = profiles / "toy" / name
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "nan" + lines[1][1:]]))
    with pytest.raises(UserError) as caught:
        Application(profiles / "toy")
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("placements.csv", "104,10,0.2,0.1", "placement: must match the pattern"),
        ("placements.csv", "4,10,0.2,0.3", "sync_time 0.3 exceeds step_time 0.2, which includes it"),
        ("validation-20.csv", "200,30,0.7,1,1", "progress: 200 must exceed 200 of the previous epoch"),
        ("validation-20.csv", "300,30,0.7,0,0", "grad_sqr and grad_var must not both be 0"),
    ],
)
def test_a_profile_that_contradicts_itself_is_refused_by_file_and_line(
    profiles: Path, name: str, row: str, said: str
) -> None:
    path = profiles / "toy" / name
    text = path.read_text()
    path.write_text(f"{text}{row}\n")
    with pytest.raises(UserError) as caught:
        Application(profiles / "toy")
    assert str(caught.value).startswith(f"{path}:{len(text.splitlines()) + 1}: {said}")


def test_an_application_whose_epochs_are_known_must_have_been_measured_to_its_end(tmp_path: Path) -> None:
    profiles = write_profile(tmp_path, "ncf")
    with pytest.raises(UserError, match=r"validation-20\.csv: holds 2 epochs, and ncf is done after 10$"):
        Application(profiles / "ncf")


def test_where_one_local_batch_size_was_measured_the_nearest_placement_counts(profiles: Path) -> None:
    for name in ("placements.csv", "scalability.csv"):
        path = profiles / "toy" / name
        header, *rows = path.read_text().splitlines()
        path.write_text("\n".join([header, *(row for row in rows if row.split(",")[-3] == "10")]))
    toy = Application(profiles / "toy")
    assert toy.step_seconds((2, 3, 2, 3, 2, 2), 10) == pytest.approx(step_seconds(4, 10), abs=0.5)
