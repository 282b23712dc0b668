"""Where each field of a request was written, so that an error can point there."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from scheduler.errors import InvalidInput, UserError
from scheduler.model.queue import ANY_GPU

_WORD = re.compile(r"[a-z_]+")
#: What can be nothing but the name of a field.
_FIELD = re.compile(r"\b[a-z]+_[a-z_]+\b")


@contextmanager
def options_named(options: Mapping[str, str]) -> Iterator[None]:
    """Errors about a request name meanwhile the option that sets the field; `options` maps fields to options.

    Inside a mapping, the key is named too: `--limit H100`.
    """
    try:
        yield
    except InvalidInput as error:
        field, _, key = error.field.partition(".")
        if field not in options:
            raise
        shown = f" {key}" if key and not key.isdecimal() and key != ANY_GPU else ""
        raise InvalidInput(f"{options[field]}{shown}", error.rule) from None


@dataclass(frozen=True, slots=True)
class Source:
    """`options` maps fields to options, `lines` dotted fields of the file to lines; both may lack any."""

    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()

    @contextmanager
    def pointed_at(self) -> Iterator[None]:
        """Errors about the request say meanwhile where the field was written."""
        try:
            yield
        except InvalidInput as error:
            raise UserError(self.complaint(error.field, error.rule)) from None
        except UserError as error:
            if type(error) is not UserError:
                raise
            raise UserError(self.complaint("", str(error))) from None

    def complaint(self, name: str, rule: str) -> str:
        """One line: where the field was written, its name, the rule that it breaks."""
        name = name.removeprefix("job.")
        if name in ("body", "job", ""):
            mentioned = next((word for word in _WORD.findall(rule) if self._known(word)), "")
            return f"{self._place(mentioned)}{rule}" if mentioned else rule
        option = self.options.get(name.partition(".")[0])
        if option is None:
            return f"{self._place(name)}{name}: {rule}"
        rule = _FIELD.sub(lambda found: self._other_option(found[0], option), rule)
        return f"{option}: {name}: {rule}" if "." in name else f"{option}: {rule}"

    def _other_option(self, name: str, option: str) -> str:
        """The option that sets the field which a rule of this option names; the name where none does, or the same."""
        other = self.options.get(name, option)
        return name if other == option else other

    def _known(self, name: str) -> bool:
        return name in self.options or name in self.fields

    def _place(self, name: str) -> str:
        """`job.yaml:7: ` for a field of the file, `--min: ` for an option, nothing for what was written nowhere."""
        option = self.options.get(name)
        if option:
            return f"{option}: "
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            line = self.lines.get(".".join(parts[:length]))
            if line is not None:
                return f"{self.path}:{line}: "
        return f"{self.path}: " if parts[0] in self.fields else ""
