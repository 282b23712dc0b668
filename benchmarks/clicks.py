"""Click-through records with a known optimum, and the area under the ROC curve (AUC). Imports torch.

Whether a record is clicked is drawn from a logistic model over hashed crosses of categories, the categories alone and
dense features. No model can order fresh records better than the odds they were drawn from, so the AUC of these is the
best there is.
"""

from dataclasses import dataclass

import torch

FIELDS, VALUES, DENSE = 6, 40, 8
#: Which fields are crossed, and into how many buckets each cross is hashed.
CROSSED = ((0, 1), (2, 3), (4, 5))
BUCKETS = 512
_HASH = 2_654_435_761
#: Spreads of the true weights, and the mean of the odds' logarithm: clicks are the lesser part.
_CROSS_SPREAD, _VALUE_SPREAD, _DENSE_SPREAD, _MEAN_ODDS = 0.8, 0.4, 0.3, -1.5


@dataclass(frozen=True, slots=True)
class Clicks:
    """One row per record in each."""

    #: Numbers below `FIELDS * VALUES`, a range of its own for each field.
    categories: torch.Tensor
    #: Numbers below `len(CROSSED) * BUCKETS`, likewise.
    crosses: torch.Tensor
    dense: torch.Tensor
    #: 1.0 where it was clicked, else 0.0.
    clicked: torch.Tensor
    #: The logarithm of the true odds of a click.
    odds: torch.Tensor

    def __len__(self) -> int:
        return len(self.clicked)

    def rows(self, which: slice | torch.Tensor) -> "Clicks":
        """Some of the records."""
        return Clicks(
            *(column[which] for column in (self.categories, self.crosses, self.dense, self.clicked, self.odds))
        )


def draw_clicks(records: int, seed: int) -> Clicks:
    """Draw click-through records, and the truth behind them: both follow from the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    popularity = 1.0 / torch.arange(1, VALUES + 1)
    values = torch.multinomial(popularity, records * FIELDS, replacement=True, generator=generator)
    values = values.view(records, FIELDS)
    pairs = torch.stack([values[:, first] * VALUES + values[:, second] for first, second in CROSSED], dim=1)
    categories = values + torch.arange(FIELDS) * VALUES
    crosses = hashed(pairs + torch.arange(len(CROSSED)) * VALUES**2) + torch.arange(len(CROSSED)) * BUCKETS
    dense = torch.randn(records, DENSE, generator=generator)
    odds = (
        _CROSS_SPREAD * torch.randn(len(CROSSED) * BUCKETS, generator=generator)[crosses].sum(1)
        + _VALUE_SPREAD * torch.randn(FIELDS * VALUES, generator=generator)[categories].sum(1)
        + dense @ (_DENSE_SPREAD * torch.randn(DENSE, generator=generator))
    )
    odds += _MEAN_ODDS - odds.mean()
    clicked = torch.bernoulli(odds.sigmoid(), generator=generator)
    return Clicks(categories, crosses, dense, clicked, odds)


def auc(scores: torch.Tensor, clicked: torch.Tensor) -> float:
    """How likely a clicked record has a higher score than one that was not; equal scores count one half.

    From the ranks (Mann and Whitney, 1947). Raises `ValueError` unless there are both kinds.
    """
    positives = int(clicked.sum())
    negatives = len(clicked) - positives
    if not positives or not negatives:
        raise ValueError("the AUC needs records that were clicked and records that were not")
    _, group, sizes = scores.double().unique(return_inverse=True, return_counts=True)
    ranks = sizes.cumsum(0) - (sizes - 1) / 2
    below = float(ranks[group][clicked.bool()].sum()) - positives * (positives + 1) / 2
    return below / (positives * negatives)


def hashed(pairs: torch.Tensor) -> torch.Tensor:
    """The bucket of each cross: Knuth's multiplicative hash."""
    return (pairs * _HASH % 2**32) * BUCKETS // 2**32
