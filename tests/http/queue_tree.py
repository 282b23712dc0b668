"""A large tree of queues, and jobs of many users in it."""

import random
from collections.abc import Sequence

from benchmarks.queues import queues
from tests.http.site import Site


def plant(site: Site, count: int, slots: int) -> list[str]:
    """Create this many queues in three levels; the paths of those that contain no other."""
    planted = queues(count, slots)
    for queue in planted:
        site.store.set_queue(queue.path, lambda _, queue=queue: queue, site.clock.now(), anew=True)
    inner = {queue.parent for queue in planted}
    return [queue.path for queue in planted if queue.path not in inner]


def crowd(site: Site, leaves: Sequence[str], jobs: int, users: int) -> None:
    """Submit elastic jobs, all of a user to one queue."""
    dice = random.Random(1)
    named = [dice.randrange(users) for _ in range(jobs)]
    batch = [
        {
            "command": ["train"],
            "name": f"training-{number}",
            "user": f"user-{user:04d}",
            "queue": leaves[user % len(leaves)],
            "min_workers": 1,
            "max_workers": 4,
        }
        for number, user in enumerate(named)
    ]
    site.client.post("/v1/jobs/batch", json={"jobs": batch}, timeout=60).raise_for_status()
