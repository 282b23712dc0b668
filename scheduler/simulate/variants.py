"""Settings side by side: each variant is a set of settings over the same base."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.config import Settings, load_settings
from scheduler.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Variant:
    """One column of the comparison."""

    label: str
    settings: Settings


def variants(config: Path | None, policies: Sequence[str], comparisons: Sequence[str]) -> list[Variant]:
    """One variant per policy name and per `setting=value,setting=value`; the settings as they are if neither is given.

    Settings have the dotted names of the settings file, as in `policy.grow_cooldown_seconds=300`. Raises `UserError`.
    """
    given = [f"policy.name={name}" for name in policies] + list(comparisons)
    if not given:
        settings = load_settings(config)
        return [Variant(settings.policy.name, settings)]
    return [_variant(config, text) for text in dict.fromkeys(given)]


def _variant(config: Path | None, text: str) -> Variant:
    overrides: dict[str, Any] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        keys = name.split(".")
        if not equals or not all(keys):
            raise InvalidInput("--compare", f"{word!r} must have the form policy.grow_cooldown_seconds=300")
        target = overrides
        for key in keys[:-1]:
            target = target.setdefault(key, {})
            if not isinstance(target, dict):
                raise InvalidInput("--compare", f"{name!r} is nested in a setting that already has a value")
        target[keys[-1]] = value
    settings = load_settings(config, overrides)
    return Variant(text.removeprefix("policy.name="), settings)
