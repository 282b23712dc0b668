"""A process reads from one queue of shards at a time, and one that nobody reads holds nothing for long."""

import os
import signal
from itertools import islice

import pytest

from scheduler import elastic
from tests.elastic.becoming import become_worker, done, running
from tests.elastic.processes import SECONDS_MAX, environment, python
from tests.http.site import Site


def test_a_second_queue_is_refused_while_the_first_one_deals(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue() as shards:
        for shard in shards:
            if shard.number == 5:
                with pytest.raises(elastic.UsageError, match="already reads from a ShardQueue"):
                    elastic.ShardQueue()
        assert list(elastic.ShardQueue()) == [], "the first one is at its end"
    assert list(elastic.ShardQueue()) == []
    assert done(site, job_id) == 10


def test_a_loop_that_is_left_gives_back_what_was_not_begun(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    for _shard in elastic.ShardQueue(ahead=5):
        break
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with elastic.ShardQueue() as others:
        # No lease runs out, since the scheduler's clock stands still.
        assert sorted(shard.number for shard in islice(others, 9)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


FORKED = """
import os
from scheduler import elastic
shards = elastic.ShardQueue(ahead=1)
print(shards.take().number, flush=True)
if os.fork() == 0:
    mine = elastic.ShardQueue(ahead=1)
    del shards
    print(mine.take().number, flush=True)
    os._exit(0)
os.wait()
print(shards.commit(), flush=True)
"""


def test_a_process_forked_from_a_reader_may_read_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, shards=1000)
    become_worker(monkeypatch, site, job_id)
    variables = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    with python(["-c", FORKED], env=[environment(**variables)]) as (process,):
        output, _ = process.communicate(timeout=SECONDS_MAX)
    first, second, lost = [line for line in output.splitlines() if "Warning" not in line and "fork()" not in line]
    assert int(first) < int(second)
    assert lost == "[]"


def test_a_closed_queue_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_URL", raising=False)
    with elastic.ShardQueue(shards=5) as shards:
        assert next(iter(shards)).number == 0
    with pytest.raises(elastic.UsageError, match="this ShardQueue is closed: create another"):
        next(iter(shards))
    with pytest.raises(elastic.UsageError, match="this ShardQueue is closed: create another"):
        shards.commit()
