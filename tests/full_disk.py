"""A disk that refuses to take more."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_limited(bytes_max: int) -> Iterator[None]:
    """No file of this process can grow beyond this size, as under a quota or on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
