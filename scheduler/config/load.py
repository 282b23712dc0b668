"""Reading the settings: a TOML file, then `SCHED_*` variables of the environment, then what the caller overrides."""

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from scheduler.config.settings import Settings, WebhookSettings
from scheduler.errors import ConfigError, broken_rule

#: A variable is PREFIX, then the names of group and setting in capitals with SEPARATOR between.
PREFIX = "SCHED_"
SEPARATOR = "__"
#: What Kubernetes sets in the pods beside a service `sched-http`, as SCHED_HTTP_PORT, is no attempt at a setting.
_OF_A_SERVICE = re.compile(r"(?:tcp|udp|sctp)://")


def load_settings(
    path: Path | None = None, overrides: dict[str, Any] | None = None, defaults: dict[str, Any] | None = None
) -> Settings:
    """Settings from a TOML file, then `SCHED_<GROUP>__<NAME>` variables, then `overrides` (nested mapping).

    `defaults`, nested too, count where none of these says anything. Raises `ConfigError` naming the setting and the
    rule.
    """
    data: dict[str, Any] = deepcopy(defaults or {})
    if path is not None:
        _merge(data, _read_toml(path))
    _merge(data, _from_environment())
    _merge(data, overrides or {})
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"setting {name}: {broken_rule(first, 'setting')}") from None


def variable(path: Sequence[str]) -> str:
    """The variable of the environment that sets the setting of this name, or of these group and name."""
    return PREFIX + SEPARATOR.join(path).upper()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # with or without a byte order mark
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _from_environment() -> dict[str, Any]:
    """`SCHED_STATE_DIR`, `SCHED_DATABASE_URL`, and nested ones such as `SCHED_ENGINE__LEASE_SECONDS`."""
    data: dict[str, Any] = {}
    for name, value in os.environ.items():
        if not name.startswith(PREFIX):
            continue
        meant = _meant(name)
        if meant not in (None, name.upper()) and not _OF_A_SERVICE.match(value):
            raise ConfigError(f"variable {name}: not a setting: use {meant}")
        keys = name.removeprefix(PREFIX).lower().split(SEPARATOR)
        if keys[0] in Settings.model_fields:  # SCHED_URL, SCHED_TOKEN and the like belong to clients and workers
            _check_depth(name, keys)
            _put(data, keys, value)
        elif len(keys) > 1 and not _OF_A_SERVICE.match(value):
            raise ConfigError(f"variable {name}: not a setting: {_of_a_group(keys)}")
    return data


def _of_a_group(keys: Sequence[str]) -> str:
    """What to use instead of the variable of a group that there is not."""
    groups = list(dict.fromkeys((*(path[0] for path in _paths() if len(path) > 1), "webhooks")))
    near = get_close_matches(keys[0], groups, 1)
    return f"use {variable((near[0], *keys[1:]))}" if near else f"use a group of {', '.join(groups)}"


def _check_depth(name: str, keys: Sequence[str]) -> None:
    """Raise `ConfigError` for the variable of a whole group, or of something within a setting."""
    paths = [path for path in (*_paths(), *_webhook_paths(keys)) if path[0] == keys[0]]
    first, depth = paths[0], len(paths[0])
    if len(keys) < depth:
        raise ConfigError(f"variable {name}: a group of settings is not set as a whole: use such as {variable(first)}")
    if len(keys) > depth and tuple(keys[:depth]) in paths:
        raise ConfigError(f"variable {name}: not a setting: use {variable(keys[:depth])}")


def _put(data: dict[str, Any], keys: Sequence[str], value: str) -> None:
    """What an unknown name has been given stays, for validation to refuse."""
    target: Any = data
    for key in keys[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            return
    target[keys[-1]] = value


def _meant(name: str) -> str | None:
    """The variable of a setting that differs from this name in nothing but single and double underscores."""
    bare = _bare(name)
    known = next((each for each in map(variable, _paths()) if _bare(each) == bare), None)
    if known is not None:
        return known
    webhooks = _bare(variable(("webhooks", "")))
    for field in WebhookSettings.model_fields:
        hook = bare.removeprefix(webhooks).removesuffix(f"_{field.upper()}")
        if hook and bare == f"{webhooks}{hook}_{field.upper()}":
            return variable(("webhooks", hook, field))
    return None


def _bare(name: str) -> str:
    return re.sub("_+", "_", name.upper())


def _paths() -> Iterator[tuple[str, ...]]:
    """The settings by group and name, without those of webhooks, whose names are the user's."""
    for name, field in Settings.model_fields.items():
        group = field.annotation
        if name == "webhooks":
            continue
        if isinstance(group, type) and issubclass(group, BaseModel):
            yield from ((name, each) for each in group.model_fields)
        else:
            yield (name,)


def _webhook_paths(keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The settings of the webhook that these keys name, and of one called NAME where they name none."""
    hook = keys[1] if len(keys) > 1 else "name"
    return (("webhooks", hook, each) for each in WebhookSettings.model_fields)


def _merge(base: dict[str, Any], extra: dict[str, Any]) -> None:
    """Where a group has been given a value itself, that stays, for validation to refuse."""
    for key, value in extra.items():
        if isinstance(value, dict) and key in base:
            if isinstance(base[key], dict):
                _merge(base[key], value)
        else:
            base[key] = value
