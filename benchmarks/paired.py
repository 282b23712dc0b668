"""Whether two ways to do the same differ, from runs that come in pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Difference:
    """Of the means, and between which bounds it lies with the confidence asked for."""

    mean: float
    low: float
    high: float
    #: How likely so large a difference is where there is none (two-sided).
    p: float


def difference(values: Sequence[float], others: Sequence[float], confidence: float = 0.95) -> Difference:
    """Of `values` less `others`, by Student's paired t-test; at the same place stand the two runs of a pair."""
    if len(values) != len(others) or len(values) < 2:
        raise ValueError(f"at least two pairs are needed, not {len(values)} and {len(others)} values")
    differences = [value - other for value, other in zip(values, others, strict=True)]
    if len(set(differences)) == 1:
        [same] = set(differences)
        return Difference(same, same, same, p=0.0 if same else 1.0)
    result = stats.ttest_rel(values, others)
    low, high = result.confidence_interval(confidence)
    return Difference(sum(differences) / len(differences), float(low), float(high), float(result.pvalue))
