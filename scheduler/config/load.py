"""Reading the settings: a TOML file, then `SCHED_*` variables of the environment, then what the caller overrides."""

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scheduler.config.settings import Settings
from scheduler.errors import ConfigError, broken_rule

#: A variable is PREFIX, then the names of group and setting in capitals with SEPARATOR between.
PREFIX = "SCHED_"
SEPARATOR = "__"


def load_settings(path: Path | None = None, overrides: dict[str, Any] | None = None) -> Settings:
    """Settings from a TOML file, then `SCHED_<GROUP>__<NAME>` variables, then `overrides` (nested mapping).

    Raises `ConfigError` naming the setting and the rule.
    """
    data: dict[str, Any] = {}
    if path is not None:
        data = _read_toml(path)
    _merge(data, _from_environment())
    _merge(data, overrides or {})
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"setting {name}: {broken_rule(first, 'setting')}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _from_environment() -> dict[str, Any]:
    """`SCHED_STATE_DIR`, `SCHED_DATABASE_URL`, and nested ones such as `SCHED_ENGINE__LEASE_SECONDS`."""
    data: dict[str, Any] = {}
    for name, value in os.environ.items():
        if not name.startswith(PREFIX):
            continue
        keys = name.removeprefix(PREFIX).lower().split(SEPARATOR)
        if keys[0] not in Settings.model_fields:
            continue  # SCHED_URL, SCHED_TOKEN and the like belong to clients and workers
        target = data
        for key in keys[:-1]:
            target = target.setdefault(key, {})
        target[keys[-1]] = value
    return data


def _merge(base: dict[str, Any], extra: dict[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
