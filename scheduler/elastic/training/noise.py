"""How noisy gradients are, and what a larger batch is worth by that. Standard library only.

Where one sample's gradient has mean G and covariance Σ, the noise scale is tr(Σ) / |G|², in samples: a batch much
smaller than it is mostly noise, and a larger one makes a step better in proportion; one much larger brings nothing
more (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018).
"""

import math
from dataclasses import dataclass
from typing import Any

#: Approximate number of gradients that the running means cover, as in AdaScale.
_HORIZON_GRADIENTS = 1000
#: Where the mean gradient cannot be told from none.
_SAMPLES_MAX = 1e9


@dataclass(frozen=True, slots=True)
class Shares:
    """Gradients of several shares of one batch: of each share alone, and of the whole."""

    #: Shares with samples; 2 or more.
    count: int
    #: Samples of all shares.
    samples: int
    #: Sum over the shares of samples × squared norm of the share's mean gradient.
    apart: float
    #: Squared norm of the whole batch's mean gradient.
    together: float


class NoiseScale:
    """Running means of tr(Σ) and |G|², whose quotient is the noise scale; a part of the committed state.

    Each measurement is unbiased for shares of any size: with b samples, a share's squared norm is |G|² + tr(Σ) / b on
    average. The two are averaged apart because a quotient of single measurements is not.
    """

    def __init__(self) -> None:
        self._variance = self._signal = 0.0

    @property
    def samples(self) -> float | None:
        """The noise scale; None before there is anything to tell it from."""
        variance, signal = max(self._variance, 0.0), max(self._signal, 0.0)
        if variance == signal == 0.0:
            return None
        return variance / signal if variance < signal * _SAMPLES_MAX else _SAMPLES_MAX

    def add(self, shares: Shares) -> None:
        """Takes in one measurement; one that overflowed is left out."""
        mean = shares.apart / shares.samples
        variance = (mean - shares.together) * shares.samples / (shares.count - 1)
        signal = shares.together - variance / shares.samples
        if not math.isfinite(variance) or not math.isfinite(signal):
            return
        kept = max(1.0 - shares.count / _HORIZON_GRADIENTS, 0.0)
        self._variance += (1.0 - kept) * (variance - self._variance)
        self._signal += (1.0 - kept) * (signal - self._signal)

    def state_dict(self) -> dict[str, Any]:
        """The means."""
        return {"variance": self._variance, "signal": self._signal}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to these means."""
        self._variance, self._signal = state["variance"], state["signal"]


def efficiency(noise: float, base: int, batch: int) -> float:
    """What a sample of a batch brings, against one of the base batch.

    Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning" (2021).
    """
    return (noise + base) / (noise + batch)


def gain(noise: float | None, base: int, batch: int) -> float:
    """How many steps with the base batch one with this batch is worth, and may go as far as: 1 to batch ÷ base.

    Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training" (2020). Without a noise scale it
    is the end of that range that cannot do harm.
    """
    scale = batch / base
    return min(scale, 1.0) if noise is None else scale * efficiency(noise, base, batch)
