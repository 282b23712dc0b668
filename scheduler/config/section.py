"""What every section of the settings is."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Section(BaseModel):
    """Frozen, and without settings that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _words(value: Any) -> Any:
    """A variable of the environment holds a list as words with commas between them."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


#: For settings that are lists.
WORDS = BeforeValidator(_words)


def _pairs(value: Any) -> Any:
    """A variable of the environment holds a table as NAME=VALUE with commas between them."""
    if not isinstance(value, str):
        return value
    pairs = (pair.partition("=") for pair in _words(value))
    return {name.strip(): found.strip() for name, _, found in pairs}


#: For settings that are tables.
PAIRS = BeforeValidator(_pairs)


def _unset(value: Any) -> Any:
    """Neither a file nor a variable of the environment can say that there is no value but by a word."""
    return None if isinstance(value, str) and value.strip() == "none" else value


#: For settings with a default that can be without a value, which is written `none`.
OR_NONE = BeforeValidator(_unset)
