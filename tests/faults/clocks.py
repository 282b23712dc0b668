"""The clocks of one daemon's machine: unix time may differ and jump, monotonic time stands still while it sleeps."""

from scheduler.clock import VirtualClock


class MachineClock:
    """Beside the true time, which the cluster, the workers and the checks go by."""

    def __init__(self, true: VirtualClock, ahead_seconds: float = 0.0) -> None:
        self._true = true
        self._ahead_seconds = ahead_seconds
        self._slept_seconds = 0.0

    def now(self) -> float:
        """Unix seconds as this machine has them."""
        return self._true.now() + self._ahead_seconds

    def monotonic(self) -> float:
        """Seconds in which the machine was awake."""
        return self._true.now() - self._slept_seconds

    def true_of(self, now: float) -> float:
        """The true time at which this machine shows that one."""
        return now - self._ahead_seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the unix time."""
        self._ahead_seconds += seconds

    def sleep(self, seconds: float) -> None:
        """The machine is suspended for so long from now on; nothing on it reads a clock meanwhile."""
        self._slept_seconds += seconds
