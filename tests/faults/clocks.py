"""The clocks of one daemon's machine: unix time may differ and jump, monotonic time stands still while it sleeps."""

from scheduler.clock import VirtualClock
from scheduler.engine.ports import Anchor


class MachineClock:
    """Beside the true time, which the cluster, the workers and the checks go by."""

    def __init__(self, true: VirtualClock, ahead_seconds: float = 0.0) -> None:
        self._true = true
        self._ahead_seconds = self._ahead_seconds_at_first = ahead_seconds
        self._slept_seconds = 0.0
        self._booted_at = 0.0
        self._boots = 1
        #: When somebody set its unix time, in true time, and by how much.
        self._set: list[tuple[float, float]] = []
        #: When each of its starts was, in true time.
        self._started_at = {self.boot(): 0.0}

    def now(self) -> float:
        """Unix seconds as this machine has them."""
        return self._true.now() + self._ahead_seconds

    def monotonic(self) -> float:
        """Seconds in which the machine was awake."""
        return self._true.now() - self._slept_seconds

    def booted(self) -> float:
        """Seconds since it started."""
        return self._true.now() - self._booted_at

    def boot(self) -> str:
        """Its starts are counted."""
        return f"boot {id(self)} {self._boots}"

    def jump(self, seconds: float) -> None:
        """Somebody sets the unix time."""
        self._ahead_seconds += seconds
        self._set.append((self._true.now(), seconds))

    def set_forward_since(self, anchor: Anchor) -> bool:
        """Whether its unix time is further ahead than at that moment; of another machine's, whether it was ever set."""
        if anchor.boot not in self._started_at:
            return bool(self._set)
        anchored_at = self._started_at[anchor.boot] + anchor.booted
        return sum(seconds for at, seconds in self._set if at >= anchored_at) > 0

    def set_right(self) -> None:
        """Somebody sets the unix time to what it was before all jumps."""
        self._ahead_seconds = self._ahead_seconds_at_first

    def sleep(self, seconds: float) -> None:
        """Suspend the machine for `seconds` from now on; nothing on it reads a clock meanwhile."""
        self._slept_seconds += seconds

    def reboot(self) -> None:
        """Nothing that counted from its start goes on."""
        self._booted_at, self._slept_seconds = self._true.now(), self._true.now()
        self._boots += 1
        self._started_at[self.boot()] = self._booted_at
