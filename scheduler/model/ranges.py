"""Sets of whole numbers as few spans, however many numbers they hold."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of numbers from 0 on. `spans` are (first, end), ascending, without the end; no two touch."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> "Ranges":
        """All numbers of these spans, in any order; they may overlap."""
        merged: list[Span] = []
        for first, end in sorted(span for span in spans if span[0] < span[1]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((first, end))
        return cls(tuple(merged)) if merged else NOTHING

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __iter__(self) -> Iterator[int]:
        for first, end in self.spans:
            yield from range(first, end)

    @property
    def count(self) -> int:
        return sum(end - first for first, end in self.spans)

    def plus(self, other: "Ranges") -> "Ranges":
        if not other.spans:
            return self
        return Ranges.of((*self.spans, *other.spans)) if self.spans else other

    def minus(self, other: "Ranges") -> "Ranges":
        if not self.spans or not other.spans:
            return self
        left: list[Span] = []
        cuts = iter(other.spans)
        cut = next(cuts, None)
        for first, end in self.spans:
            while cut is not None and cut[1] <= first:
                cut = next(cuts, None)
            while cut is not None and cut[0] < end:
                if first < cut[0]:
                    left.append((first, cut[0]))
                first = cut[1]
                if first >= end:
                    break
                cut = next(cuts, None)
            if first < end:
                left.append((first, end))
        return Ranges(tuple(left))

    def both(self, other: "Ranges") -> "Ranges":
        """What is in both."""
        return self.minus(self.minus(other)) if self.spans and other.spans else NOTHING

    def first(self, count: int) -> "Ranges":
        """The smallest numbers, up to the given count."""
        taken: list[Span] = []
        for first, end in self.spans:
            if count <= 0:
                break
            taken.append((first, min(end, first + count)))
            count -= end - first
        return Ranges(tuple(taken))


NOTHING = Ranges()
