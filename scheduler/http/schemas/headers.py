"""Headers that a route reads by itself, each with its limits and its description."""

from typing import Annotated, Any

from fastapi import Request
from pydantic import StringConstraints, TypeAdapter, ValidationError

from scheduler.http.errors import invalid_input


class RequestHeader:
    """A header that may be left out."""

    def __init__(
        self, name: str, description: str, pattern: str, length_max: int, length_min: int | None = None
    ) -> None:
        limits = StringConstraints(pattern=pattern, min_length=length_min, max_length=length_max)
        self._name = name
        self._value = TypeAdapter[str](Annotated[str, limits])
        #: Its OpenAPI description, as a parameter of a route.
        self.documented: dict[str, Any] = {
            "name": name,
            "in": "header",
            "required": False,
            "description": description,
            "schema": self._value.json_schema(),
        }

    def sent_in(self, request: Request) -> str | None:
        """Its value; None: it was left out. Raises `InvalidInput`."""
        sent = request.headers.get(self._name)
        if sent is None:
            return None
        try:
            return self._value.validate_python(sent)
        except ValidationError as error:
            raise invalid_input(error, (self._name,)) from None
