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
