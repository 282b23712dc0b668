"""The one tree of errors. A user's mistake says what was wrong, where, and what would be right."""


class SchedulerError(Exception):
    """Root of everything this package raises on purpose."""


class UserError(SchedulerError):
    """The caller asked for something impossible; the message is one line meant for a person."""


class InvalidInput(UserError):
    """A field of a request, job file or setting breaks a rule."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


class NotFound(UserError):
    """No job, node or recurring job has this name."""


class Conflict(UserError):
    """The thing exists, but its state does not allow the request."""


class ConfigError(UserError):
    """The daemon cannot start with these settings."""


class StoreError(SchedulerError):
    """The database refused or could not do what was asked."""


class StoreUnavailable(StoreError):
    """For now: locked, full, or out of reach. Nothing was written, or it is unknown whether it was."""


class LeaseLost(StoreError):
    """Another engine leads with a higher term; this one must stop deciding."""


class StaleWrite(StoreError):
    """A row changed since it was read; the commit was refused whole."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this version needs."""


class ClusterError(SchedulerError):
    """The cluster could not be observed."""


class IllegalTransition(SchedulerError):
    """A state machine was asked for an edge that it does not have: a defect of the engine."""
