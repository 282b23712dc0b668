"""Scripts that take their data in shards, from a real scheduler over HTTP and without one."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader

from scheduler import elastic
from tests.elastic.becoming import become_worker, done, running
from tests.http.site import Site


def read(shard: elastic.Shard) -> Iterator[torch.Tensor]:
    """A shard has as many samples as its number says, so that one has none."""
    return (torch.tensor([shard.epoch, shard.number, k]) for k in range(shard.number))


def test_without_a_scheduler_all_shards_are_dealt_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_URL", raising=False)
    with elastic.ShardQueue(shards=5, epochs=2) as shards:
        assert [(shard.epoch, shard.number) for shard in shards] == [(e, n) for e in (0, 1) for n in range(5)]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with elastic.ShardQueue(shards=5) as shards:
        assert [shard.number for shard in shards] == [1, 3]
    with pytest.raises(elastic.UsageError, match=r"number of shards is required"):
        elastic.ShardQueue()
    for shards, epochs in ((10**9 + 1, 1), (10**9, 2)):
        with pytest.raises(elastic.UsageError, match=r"must be an integer, 1 to 1,000,000,000"):
            elastic.ShardQueue(shards=shards, epochs=epochs)


@pytest.mark.parametrize(("records", "shards"), [(10, 3), (2, 5), (0, 4), (1000, 7)])
def test_parts_of_records_are_all_of_them(records: int, shards: int) -> None:
    parts = [elastic.Shard(0, 0, number, shards).part_of(records) for number in range(shards)]
    assert [record for part in parts for record in part] == list(range(records))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_script_iterates_and_the_scheduler_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, epochs=2)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue() as shards:
        seen = [(shard.epoch, shard.number, shard.of) for shard in shards]
    assert seen == [(e, n, 10) for e in (0, 1) for n in range(10)]
    assert done(site, job_id) == 20


def test_what_was_not_begun_is_given_back_and_what_was_is_not(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, workers=2)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue(ahead=5) as shards:
        assert next(iter(shards)).number == 0
    become_worker(monkeypatch, site, job_id, 2)
    with elastic.ShardQueue(ahead=20) as others:
        assert [next(dealt).number for dealt in [iter(others)] for _ in range(3)] == [1, 2, 3]


def test_an_error_in_the_loop_is_a_failure_of_the_shard_in_hand(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, max_attempts=1)
    become_worker(monkeypatch, site, job_id)

    def fail_at_the_third() -> None:
        with elastic.ShardQueue() as shards:
            for shard in shards:
                if shard.number == 2:
                    raise ValueError("not a picture")

    with pytest.raises(ValueError, match="not a picture"):
        fail_at_the_third()
    [aside] = site.store.list_set_aside(job_id)
    assert (aside.position, aside.detail) == (2, "ValueError: not a picture")
    with elastic.ShardQueue() as shards:
        assert [shard.number for shard in shards] == [3, 4, 5, 6, 7, 8, 9]


def test_a_commit_tells_what_was_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, workers=2, lease_seconds=600)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue(ahead=20) as shards:
        dealt = iter(shards)
        next(dealt)
        assert shards.commit() == []
        assert done(site, job_id) == 1
        lost = next(dealt)
        for _ in range(61):
            site.advance(10)  # nothing is heard of the worker, which has all at hand and whose clock runs slower
        become_worker(monkeypatch, site, job_id, 2)
        with elastic.ShardQueue(ahead=20) as others:
            for shard in others:
                assert shard.position != 0
        assert done(site, job_id) == 10
        assert shards.commit() == [lost.position]
        assert list(dealt) == []
    assert done(site, job_id) == 10


def test_a_worker_that_is_asked_to_leave_exits_with_64(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, workers=(1, 2))
    become_worker(monkeypatch, site, job_id, 2)
    seen = []

    def train() -> None:
        with elastic.ShardQueue() as shards:
            for shard in shards:
                seen.append(shard.number)
                if shard.number == 3:
                    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 1})
                    site.tick()
                    shards.commit()

    with pytest.raises(SystemExit) as left:
        train()
    assert left.value.code == 64
    assert seen == [0, 1, 2, 3]
    assert site.store.read_queues([job_id])[job_id].progress().held == 0
    assert done(site, job_id) == 4


def test_a_job_without_data_says_what_is_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = site.submit()
    site.advance(1)
    become_worker(monkeypatch, site, job_id)
    shards = elastic.ShardQueue()
    with pytest.raises(elastic.UsageError, match=f"job {job_id} has not declared data: declare `data`"):
        next(iter(shards))
    shards.close()


@pytest.mark.parametrize("processes", [0, 2])
def test_batches_of_a_loader_hold_each_sample_once(site: Site, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    job_id = running(site, epochs=2, shuffle=True)
    become_worker(monkeypatch, site, job_id)
    data = elastic.ShardedDataset(read)
    loader = DataLoader(data, batch_size=7, num_workers=processes, collate_fn=data.collate)
    samples: Counter[tuple[int, ...]] = Counter()
    with elastic.ShardQueue() as shards:
        for batch in data.batches(shards, loader):
            assert len(batch) <= 7
            samples.update(tuple(row.tolist()) for row in batch)
    assert samples == Counter((e, n, k) for e in (0, 1) for n in range(10) for k in range(n))
    assert done(site, job_id) == 20


def test_a_shard_is_done_when_the_batch_with_its_last_sample_was_used(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    data = elastic.ShardedDataset(lambda shard: (torch.tensor(k) for k in range(3)))
    loader = DataLoader(data, batch_size=4, collate_fn=data.collate)
    with elastic.ShardQueue() as shards:
        batches = data.batches(shards, loader)
        next(batches)
        assert done(site, job_id) == 0
        next(batches)  # the first four samples were used, so shard 0 is over and shard 1 is not
        assert shards.commit() == []
        assert done(site, job_id) >= 1


@pytest.mark.parametrize("processes", [0, 2])
def test_a_commit_between_batches_reports_only_shards_that_were_used_up(
    site: Site, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    data = elastic.ShardedDataset(read)
    loader = DataLoader(data, batch_size=4, num_workers=processes, collate_fn=data.collate)
    used: Counter[int] = Counter()
    with elastic.ShardQueue() as shards:
        for batch in data.batches(shards, loader):
            used.update(batch[:, 1].tolist())
            assert shards.commit() == []
            # Shard 0 has no samples.
            assert done(site, job_id) <= sum(used[number] == number for number in range(10))
    assert done(site, job_id) == 10


def test_a_commit_of_one_thread_reports_no_shard_of_another(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue() as shards, ThreadPoolExecutor(1) as another:
        assert another.submit(shards.take).result() is not None
        assert shards.take() is not None
        assert shards.commit() == []
        assert done(site, job_id) == 1
        assert another.submit(shards.commit).result() == []
        assert done(site, job_id) == 2


def test_a_loop_that_is_left_and_begun_again_goes_on_where_it_was_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue() as shards:
        assert [shard.number for shard in islice(shards, 4)] == [0, 1, 2, 3]
        assert [shard.number for shard in shards] == [3, 4, 5, 6, 7, 8, 9]
    assert done(site, job_id) == 10


@pytest.mark.parametrize("processes", [0, 2])
def test_batches_that_are_left_and_begun_again_have_every_sample(
    site: Site, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    data = elastic.ShardedDataset(read)
    loader = DataLoader(data, batch_size=4, num_workers=processes, collate_fn=data.collate)
    with elastic.ShardQueue() as shards:
        first = [sample[1:] for batch in islice(data.batches(shards, loader), 3) for sample in batch.tolist()]
        rest = [sample[1:] for batch in data.batches(shards, loader) for sample in batch.tolist()]
    assert len(rest) == len({tuple(sample) for sample in rest}), "none is twice in one loop"
    assert {tuple(sample) for sample in first + rest} == {(n, k) for n in range(10) for k in range(n)}
    assert done(site, job_id) == 10


def test_persistent_processes_do_not_begin_again_after_a_loop_that_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_URL", raising=False)
    data = elastic.ShardedDataset(read)
    loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True, collate_fn=data.collate)
    with elastic.ShardQueue(shards=9) as shards:
        next(data.batches(shards, loader))
        with pytest.raises(
            elastic.UsageError, match="persistent processes cannot begin again; make another DataLoader"
        ):
            next(data.batches(shards, loader))


def test_a_loader_that_would_lose_samples_is_refused() -> None:
    data = elastic.ShardedDataset(read)
    with elastic.ShardQueue(shards=2) as shards:
        with pytest.raises(elastic.UsageError, match=r"collate_fn=data\.collate"):
            next(data.batches(shards, DataLoader(data)))
        with pytest.raises(elastic.UsageError, match="drop_last"):
            next(data.batches(shards, DataLoader(data, collate_fn=data.collate, batch_size=2, drop_last=True)))
        with pytest.raises(elastic.UsageError, match="come from a queue"):
            next(iter(data))
