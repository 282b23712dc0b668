"""Libraries that only some simulations need; they are installed with the extra `simulate`."""

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.errors import UserError


@contextmanager
def needs(library: str) -> Iterator[None]:
    """An import inside that fails for want of a library tells the user how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("scheduler"):
            raise
        install = "pip install 'elastic-gpu-scheduler[simulate]'"
        raise UserError(f"this simulation needs {library}, but {error.name} is not installed: run {install}") from None
