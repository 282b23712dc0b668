"""The one tree of errors. A user's mistake says what was wrong, where, and what would be right."""

import re
from collections.abc import Mapping
from typing import Any

#: Values longer than this are not repeated in a message.
_SHOWN_MAX = 60
#: Fields whose values are never repeated in a message; `env` and `secret` anywhere in the path.
_SECRET = frozenset({"env", "secret", "token", "url", "database_url"})
#: How pydantic words a rule, and how we do.
_WORDING = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"^(?:Value error|Assertion failed), ", ""),
        (r"^Field required$", "is required"),
        (r"^Input should be a valid string$", "must be a string"),
        (r"^(?:Input|String|List|Tuple|Dictionary|Value) should ", "must "),
        (r"^must be a valid (integer|datetime)\b", r"must be an \1"),
        (r"^must be a valid (number|list|tuple|string)\b", r"must be a \1"),
        (r"^must be a valid boolean\b", "must be true or false"),
        (r"^must be a valid dictionary\b", "must be a mapping"),
        (r"^must match pattern '\^https\?://.*", "must be a URL that starts with http:// or https://"),
        (r"^must match pattern '\^/.*", "must be an absolute path"),
        (r"^must match pattern '\^\[\^\\x00-\\x1f.*", "must not contain control characters"),
        (r"^must match pattern '\^\[\^\\x00\]\*\$'", "must not contain NUL"),
        (r"^must match pattern ", "must match the pattern "),
        (r"^must have at least 1 (?:character|item)\b(?!s).*", "must not be empty"),
        (r", (?:unable to|got a number with) .*| after validation", ""),
        (r"greater than or equal to", "at least"),
        (r"less than or equal to", "at most"),
    )
)


def plain_rule(message: str) -> str:
    """A rule in pydantic's words, in ours: `must be at least 1`."""
    for pattern, text in _WORDING:
        message = pattern.sub(text, message)
    return message


def broken_rule(error: Mapping[str, Any], noun: str = "field") -> str:
    """The rule that one of pydantic's errors names, with the value that breaks it: `must be at least 1, not 0`."""
    if error["type"] == "extra_forbidden":
        return f"unknown {noun}"
    if error["type"] == "model_type":
        return "must be a mapping of fields"
    rule, value = plain_rule(str(error["msg"])), error.get("input")
    if error["type"] == "value_error" or not rule.startswith("must ") or value == "":
        return rule
    if not isinstance(value, str | int | float) or not _SECRET.isdisjoint(error["loc"]):
        return rule
    shown = repr(value)
    return f"{rule}, not {shown}" if len(shown) <= _SHOWN_MAX else rule


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


class LimitReached(UserError):
    """As many of something are stored as may be at a time; the same request may be accepted later."""


class UnreadableRow(UserError):
    """A row of the database that was asked for cannot be read; it stays as it is until somebody repairs it."""


class ConfigError(UserError):
    """The daemon cannot start with these settings."""


class StoreError(SchedulerError):
    """The database refused or could not do what was asked."""


class StoreUnavailable(StoreError):
    """For now: locked, full, or out of reach. Nothing was written, or it is unknown whether it was."""


class LeaseLost(StoreError):
    """Another engine leads with a higher term; this one must stop deciding."""


class WorkersElsewhere(StoreError):
    """Workers of this database live where a daemon of another state directory or cluster started them."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"the workers of this database run at {place}, and this daemon would start them a second time: "
            "start it there, or end all jobs first; if that place is lost, run `sched db disown`"
        )


class StaleWrite(StoreError):
    """A row changed since it was read; the commit was refused whole."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this version needs."""


class ClusterError(SchedulerError):
    """The cluster could not be observed."""


class IssuerError(SchedulerError):
    """The issuer of OpenID Connect cannot be asked for its keys, or has none that can be used."""


class IllegalTransition(SchedulerError):
    """A state machine was asked for an edge that it does not have: a defect of the engine."""
