"""One generation of a torchrun job as its agents share it: who is ready to move, failed or is done. Imports torch."""

import logging
import time
from dataclasses import dataclass

from scheduler.elastic.group.rendezvous_store import absent
from scheduler.elastic.group.signed_store import SignedStore
from scheduler.elastic.membership.membership import Membership

_LOG = logging.getLogger("scheduler.elastic")
#: How long an agent that is ready to move waits, without looking after its processes, for the others to be.
_TOGETHER_SECONDS = 2.0
#: After that it moves without those that are not: they hang.
_MOVE_SECONDS_MAX = 10.0
#: torchrun's agents count here that their processes are done, and wait for this to be set: by the last of them.
_DONE = "torchelastic/agent/terminal_state/num_members"
_ALL_DONE = "torchelastic/agent/terminal_state/last_member"


@dataclass(slots=True)
class Round:
    """The generation that this agent's processes train in."""

    membership: Membership
    rank: int
    #: where its agents meet, and its processes
    store: SignedStore
    #: when it is left at the latest, once a newer list is there
    leave_at: float | None = None

    def ready_together(self, newest: Membership) -> bool:
        """Whether all who go on are about to stop their processes: no failure is seen then that is none.

        Blocks until they are, but not for long: meanwhile nobody looks after this agent's processes. Once those of
        one agent are done with success, nobody moves: those of the others are about to be.
        """
        self.leave_at = self.leave_at or time.monotonic() + _MOVE_SECONDS_MAX
        until = time.monotonic() + _TOGETHER_SECONDS
        try:
            if self.store.check([_DONE]):
                return False
            # Who has not joined has no processes that could fail, and may never join this generation any more.
            staying = (self.membership.rank_of(worker) for worker in newest.workers)
            others = [rank for rank in staying if rank is not None and rank != self.rank]
            without = absent(self.store, "joined", others)
            ready = [f"ready/{rank}" for rank in others if rank not in without]
            self.store.set(f"ready/{self.rank}", "1")
            while ready and not self.store.check(ready):
                if time.monotonic() >= until:
                    self.store.delete_key(f"ready/{self.rank}")
                    return time.monotonic() >= self.leave_at
                time.sleep(0.005)
        except RuntimeError:
            _LOG.info("generation %d: its store is gone; the other workers have moved on", self.membership.generation)
        return True

    def note_failure(self) -> bool:
        """Whether this agent is the first of its generation whose processes failed."""
        try:
            self.store.set(f"ready/{self.rank}", "1")
            return self.store.add("failed", 1) == 1
        except RuntimeError:
            return False

    def failed_everywhere(self) -> bool:
        """Whether the processes of all agents failed: then all agents are alive."""
        try:
            return self.store.add("failed", 0) >= self.membership.size
        except RuntimeError:
            return False

    def dismiss_done(self) -> bool:
        """Lets agents go whose processes have ended with success; whether there are any."""
        try:
            if not self.store.check([_DONE]):
                return False
            self.store.set(_ALL_DONE, "")
        except RuntimeError:
            return False
        return True
