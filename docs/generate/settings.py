"""docs/settings.md: every setting of the daemon, from the models that validate it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.generate.markdown import heading, table
from scheduler.bounds import SECONDS
from scheduler.config import Settings, WebhookSettings
from scheduler.config.load import variable

_HEAD = """
`sched serve` takes a setting from its own options, else from a variable of the environment, else from the TOML file
that `--config` names, else from its default. Each variable stands below its setting; a list is separated by commas
there, and a table is such a list of NAME=VALUE. Two underscores stand between group and name. The daemon refuses to
start when a setting breaks a rule, or when a variable has one underscore where two belong, and names it. A number of
seconds is at least 0 and may have a fraction.

```toml
database_url = "postgresql+psycopg://sched@db/sched"

[local]
slots = 8

[policy]
aging_per_hour = 1.0
```
"""
#: Ends of names, and the unit that they say; the first that fits.
_UNITS = (("_slot_seconds", "slot-seconds"), ("_seconds", "seconds"), ("_bytes_max", "bytes"))
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
_TITLES = ("setting", "type", "default", "meaning")


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield heading("Settings") + _HEAD
    schema = Settings.model_json_schema()
    groups = {name: field.annotation for name, field in Settings.model_fields.items() if _is_group(field)}
    plain = {name: field for name, field in Settings.model_fields.items() if name not in {*groups, "webhooks"}}
    yield "## General\n"
    yield from table(_TITLES, (_row((name,), field, schema["properties"][name]) for name, field in plain.items()))
    for name, group in groups.items():
        assert isinstance(group, type)
        yield from _group((name,), f"`[{name}]`", group)
    yield from _group(("webhooks", "NAME"), "`[webhooks.NAME]`", WebhookSettings)


def _is_group(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _group(path: tuple[str, ...], title: str, group: type[BaseModel]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield f"{(group.__doc__ or '').strip()}\n"
    properties = group.model_json_schema()["properties"]
    yield from table(
        _TITLES, (_row((*path, name), field, properties[name]) for name, field in group.model_fields.items())
    )


def _row(path: tuple[str, ...], field: FieldInfo, schema: Mapping[str, Any]) -> tuple[str, ...]:
    tables = schema.get("items", {}).get("type") == "object"
    name = f"`{path[-1]}`" if tables else f"`{path[-1]}`<br>`{variable(path)}`"
    return name, _type(path[-1], schema), _default(field), field.description or ""


def _type(name: str, schema: Mapping[str, Any]) -> str:
    """The unit, or the type in words, and its bounds."""
    options = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    (rule,) = options
    if "enum" in rule:
        return "one of " + ", ".join(f"`{value}`" for value in rule["enum"])
    if rule.get("type") == "array":
        items = {"integer": "whole numbers", "string": "words", "object": "tables"}[rule["items"]["type"]]
        return f"list of {items}"
    if rule.get("type") == "object":
        return f"table of {_TYPES[rule['additionalProperties']['type']]}s"
    if rule.get("format") == "path":
        return "path"
    word = next((unit for end, unit in _UNITS if name.endswith(end)), _TYPES[rule["type"]])
    return " ".join(filter(None, (word, _bounds(rule))))


def _bounds(rule: Mapping[str, Any]) -> str:
    if (rule.get("minimum"), rule.get("maximum")) == (0, SECONDS.high):
        return ""
    low = f"≥ {_number(rule['minimum'])}" if "minimum" in rule else ""
    if "exclusiveMinimum" in rule:
        low = f"> {_number(rule['exclusiveMinimum'])}"
    if "minLength" in rule:
        low = f"of at least {rule['minLength']} characters"
    high = f"≤ {_number(rule['maximum'])}" if rule.get("maximum", SECONDS.high) != SECONDS.high else ""
    return ", ".join(filter(None, (low, high)))


def _default(field: FieldInfo) -> str:
    """As it is written in TOML."""
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "not set"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"`{_number(value)}`"
    return f"`{json.dumps(str(value) if isinstance(value, Path) else value)}`"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
