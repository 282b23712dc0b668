"""The numbers that a script shows with its job. Standard library only."""

import logging
import math
import re
from collections.abc import Mapping
from typing import Any

from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.arguments import shown

_LOG = logging.getLogger("scheduler.elastic")
#: A report may show 16; one of them is the noise scale.
METRICS_MAX = 15
#: As the scheduler takes names.
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,128}")


class Metrics:
    """The last ones given, as far as they can be reported."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self._left_out: set[str] = set()

    def put(self, metrics: Mapping[str, Any]) -> None:
        """Replaces all. One that is not finite is left out, which is said once; `UsageError` for what is no number."""
        if len(metrics) > METRICS_MAX:
            raise UsageError(f"report() accepts at most {METRICS_MAX} numbers, not {len(metrics)}")
        numbers = {_checked(name): _number(name, value) for name, value in metrics.items()}
        self.numbers = {name: number for name, number in numbers.items() if math.isfinite(number)}
        for name in numbers.keys() - self.numbers.keys() - self._left_out:
            if len(self._left_out) < METRICS_MAX:
                self._left_out.add(name)
                _LOG.warning("%s is %g: left out of reports while it is not finite", name, numbers[name])


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"report() accepts names of 1 to 128 letters, digits and . _ / -, not {shown(name)}")
    return name


def _number(name: str, value: Any) -> float:
    cause: Exception | None = None
    # Python would make a number of text.
    if not isinstance(value, str | bytes | bytearray):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            cause = error
    raise UsageError(f"report() accepts numbers only: {name} is {shown(value)}") from cause
