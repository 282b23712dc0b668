"""The bodies of the HTTP API: every schema with its fields, and what the comments in the code say of them."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import scheduler.http
from docs.generate.comments import member_comments
from docs.generate.markdown import sentence, table
from scheduler.model.job_fields import JOB_FIELDS

_PREFIX = "#/components/schemas/"
#: Ends of the names of answers that repeat what was requested.
_SHOWN = re.compile(r"(?:View|Detail|Accepted|Request)$")
#: Bounds that only keep a number storable.
_NO_BOUND = 2**53


class Schemas:
    """The schemas of an OpenAPI document by their names there."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def lines(self) -> Iterator[str]:
        """A section for each, by name."""
        yield "## Bodies\n"
        for key in sorted(self._schemas, key=name_of):
            yield from self._section(key, self._schemas[key])

    def text(self, schema: Mapping[str, Any]) -> str:
        """The type in words; another schema is linked."""
        if "$ref" in schema:
            key = str(schema["$ref"]).removeprefix(_PREFIX)
            return f"[{name_of(key)}](#{name_of(key).lower()})"
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(self.text(each) for each in schema["anyOf"]))
        if "enum" in schema:
            return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
        match schema.get("type"):
            case "array" if "prefixItems" in schema:
                return "[" + ", ".join(self.text(each) for each in schema["prefixItems"]) + "]"
            case "array":
                return f"list of {self.text(schema.get('items', {}))}"
            case "object":
                return "object" + self._values(schema)
            case "string":
                return "string" + _range(schema, "minLength", "maxLength", "characters")
            case "integer" | "number" as kind:
                return f"{kind}" + _range(schema, "minimum", "maximum", "")
            case kind:
                return "any" if kind is None else f"{kind}"

    def _values(self, schema: Mapping[str, Any]) -> str:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values:
            return f" of {self.text(values)}"
        named = schema.get("patternProperties")
        return f" of {self.text(next(iter(named.values())))}" if named else ""

    def _section(self, key: str, schema: Mapping[str, Any]) -> Iterator[str]:
        yield f"### {name_of(key)}\n"
        if text := schema.get("description"):
            yield f"{sentence(' '.join(text.split()))}\n"
        if "enum" in schema:
            yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.\n"
        if properties := schema.get("properties"):
            comments = _comments(key)
            required = schema.get("required", ())
            rows = (self._field(name, each, name in required, comments) for name, each in properties.items())
            yield from table(("field", "type", "meaning"), rows)
            yield ""

    def _field(
        self, name: str, schema: Mapping[str, Any], required: bool, comments: Mapping[str, str]
    ) -> tuple[str, ...]:
        meaning = schema.get("description") or comments.get(name, "")
        parts = [sentence(meaning)] if meaning else []
        default = schema.get("default")
        if not required and default not in (None, "", [], {}):
            parts.append(f"Default: `{json.dumps(default)}`.")
        return f"`{name}`", self.text(schema), " ".join(parts)


def name_of(key: str) -> str:
    """The name of a schema for people: two of one name are told apart by their modules."""
    *module, name = key.split("__")
    return f"{name}-{module[-1]}" if module else name


def _range(schema: Mapping[str, Any], low: str, high: str, unit: str) -> str:
    least, most = schema.get(low), schema.get(high)
    if most is not None and most >= _NO_BOUND:
        most = None
    if "exclusiveMinimum" in schema:
        return f" > {schema['exclusiveMinimum']:g}" + (f", ≤ {most:,}" if most is not None else "")
    if most is None:
        return f" ≥ {least:,}" if least else ""
    text = f"{least:,} to {most:,}" if least is not None else f"≤ {most:,}"
    return f" ({text} {unit})" if unit else f", {text}"


def _comments(key: str) -> Mapping[str, str]:
    """What is said of the fields. A field that is shown as it was requested is described with the request."""
    *module, name = key.split("__")
    kinds = [kind for kind in _kinds().get(name, ()) if not module or kind.__module__ == ".".join(module)]
    asked = _kinds().get(f"{_SHOWN.sub('', name)}Request", [])
    found = {field: said.description for field, said in JOB_FIELDS.items()} if asked else {}
    for kind in (*asked, *kinds[:1]):
        found |= member_comments(kind)
    return found


@cache
def _kinds() -> Mapping[str, list[type]]:
    """Every class of the API's modules by its name."""
    found: dict[str, list[type]] = {}
    for info in pkgutil.walk_packages(scheduler.http.__path__, "scheduler.http."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == info.name:
                found.setdefault(value.__name__, []).append(value)
    return found
