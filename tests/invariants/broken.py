"""The error of a broken invariant."""


class Broken(BaseException):
    """An invariant does not hold: which one, and one line that says where.

    No `except Exception` of what is tested may take it for a failure of its own that it goes on after.
    """

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


def hold(condition: bool, invariant: str, detail: str) -> None:
    """Raise `Broken` unless the condition holds."""
    if not condition:
        raise Broken(invariant, detail)
