"""What a number may be, quantity by quantity, and how deep values or long lists may be. Standard library only.

Requests, settings, job files, reports of workers and observations of the cluster are checked against these, and so are
the values of the model that are made of them. The bounds are far beyond every real use, yet near enough that products
and ratios of several quantities stay finite and never become zero: nothing that is computed from them is infinite or
not a number.
"""

from dataclasses import dataclass

from scheduler.errors import InvalidInput

#: Mappings and lists inside each other: pod templates need about twelve. Those who write JSON stop at some hundreds.
NESTING_MAX = 32
#: Names in a text; of a longer list the first ones are enough.
NAMED_MAX = 5
#: Bearer tokens: printable ASCII, as a header carries them.
TOKEN_PATTERN = r"^[!-~]([ -~]*[!-~])?$"


@dataclass(frozen=True, slots=True)
class Bound:
    """From `low` to `high`; also zero where `zero` says so, and the same below zero where `signed` says so."""

    low: float
    high: float
    zero: bool = False
    signed: bool = False

    def admits(self, value: float) -> bool:
        """Whether the number is allowed. What is not a number is not."""
        size = abs(value) if self.signed else value
        return self.low <= size <= self.high or (self.zero and size == 0)

    def nearest(self, value: float) -> float:
        """The number itself if it is allowed, else the end that it is beyond: 0, where it may be, for a smaller one.

        `value` must be a number.
        """
        if self.admits(value):
            return value
        if self.signed and value < 0:
            return -self.nearest(-value)
        if value < self.low:
            return 0.0 if self.zero else self.low
        return self.high

    @property
    def rule(self) -> str:
        """The rule for people: `must be 0, or from 1e-06 to 1e+09`."""
        size = "have a size " if self.signed else ""
        zero = "be 0, or " if self.zero else "" if self.signed else "be "
        return f"must {zero}{size}from {self.low:g} to {self.high:g}"

    def check(self, field: str, value: float | None) -> None:
        """Raise `InvalidInput` for a number that is not allowed; None is."""
        if value is not None and not self.admits(value):
            raise InvalidInput(field, f"{self.rule}, not {value!r}")


#: A span of time that may be empty, in seconds.
SECONDS = Bound(1e-6, 1e9, zero=True)
#: A span of time that may not be empty.
DURATION = Bound(1e-6, 1e9)
#: Between the request to leave and the kill of a worker.
GRACE = Bound(1e-6, 86400.0, zero=True)
#: The longest silence of a worker; 0: its silence is not watched.
HEARTBEAT = Bound(1e-6, 86400.0, zero=True)
#: A point in time, in unix seconds: calendars of other programs end later.
MOMENT = Bound(1e-6, 1e11, zero=True)
#: CPUs of one worker; Kubernetes counts thousandths.
CPUS = Bound(1e-3, 65536.0, zero=True)
#: CPUs that are added up or subtracted, counted in billionths.
CPUS_HELD = Bound(1e-9, 1e9, zero=True)
#: Samples per second of a whole job.
RATE = Bound(1e-9, 1e15, zero=True)
#: Speed of a job at one size, in any one unit.
SPEED = Bound(1e-9, 1e15)
#: The share of a whole that is done.
FRACTION = Bound(1e-9, 1.0, zero=True)
#: A part of a share, as a difference of two.
SHARE = Bound(1e-20, 1e6, zero=True)
#: Progress per sample against the best.
EFFICIENCY = Bound(1e-9, 1.0)
#: Slots times seconds, as measured or estimated.
SLOT_SECONDS = Bound(1e-9, 1e40, zero=True)
#: What a slot costs for an hour.
PRICE = Bound(1e-9, 1e9, zero=True)
#: Slot-hours that the jobs of a queue may hold in a month.
BUDGET = Bound(1, 10**12, zero=True)
#: A multiple of something, in settings.
FACTOR = Bound(1e-6, 1e6, zero=True)
#: Slots that may be given out per slot that exists.
OVERSELL = Bound(1.0, 64.0)
#: Shards of a job's data, each counted once per epoch: one of the most that there may be is a `FRACTION` of them still.
SHARDS = Bound(1, 10**9)
#: What a user's script measures; it is shown, and never computed with.
METRIC = Bound(1e-300, 1e300, zero=True, signed=True)
#: Counts of the model, which its arrays of whole numbers hold with room for sums.
WORKERS = Bound(1, 100_000)
SLOTS = Bound(1, 4096, zero=True)
SLOTS_PER_WORKER = Bound(1, SLOTS.high)
MEMORY_MIB = Bound(1, 2**40, zero=True)
#: Memory that is added up.
MEMORY_HELD_MIB = Bound(1, 2**50, zero=True)
#: What a queue may be promised or limited to, its weight, and the number of its jobs.
SLOTS_OF_QUEUE = Bound(1, 10_000_000, zero=True)
WEIGHT = Bound(1e-6, 1e6)
JOBS_OF_QUEUE = Bound(1, 10_000_000, zero=True)
PRIORITY = Bound(1, 1_000_000, zero=True, signed=True)


def nested_too_deeply(value: object, levels: int = NESTING_MAX) -> bool:
    """Whether mappings and lists of a JSON value are nested deeper than the given limit."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        children = [each.values() if isinstance(each, dict) else each for each in level]
        level = [child for each in children for child in each if isinstance(child, dict | list)]
        if not level:
            return False
    return True
