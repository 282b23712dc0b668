"""A shuffled order of any length that need not be written down: the place of each item is computed by itself.

A Feistel network over the next power of four, walked until it lands inside (Black & Rogaway, "Ciphers with arbitrary
finite domains", 2002). It mixes well enough for the order of training data; it keeps no secrets.
"""

from functools import lru_cache
from hashlib import blake2b

_ROUNDS = 4
_ODD = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def shuffled(place: int, size: int, seed: int, epoch: int) -> int:
    """Which of `size` items stands at this place in the order of that epoch."""
    half = max((size - 1).bit_length() + 1, 2) // 2
    keys, mask = _keys(seed, epoch), (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for key in keys:
            mixed = ((right ^ key) * _ODD) & _MASK
            left, right = right, left ^ (((mixed ^ (mixed >> 29)) >> 24) & mask)
        place = (left << half) | right
        if place < size:
            return place


@lru_cache(maxsize=1024)
def _keys(seed: int, epoch: int) -> tuple[int, ...]:
    digest = blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * _ROUNDS).digest()
    return tuple(int.from_bytes(digest[8 * n : 8 * n + 8], "big") for n in range(_ROUNDS))
