"""Fields that requests have in common, with their limits, and the base class of requests."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from scheduler.config.numbers import Speed
from scheduler.model.queue_tree import GROUP_PREFIX, PATH_LENGTH_MAX, PATH_PATTERN, broken_path

PLAIN = r"^[^\x00-\x1f\x7f]*$"
_NO_NUL = r"^[^\x00]*$"
SHELL = ("/bin/sh", "-c")
ARGUMENT_LENGTH_MAX = 65536
BOOKING_NAME = r"^[A-Za-z0-9._-]+$"
EXPORTED_NAME = r"^[^=\x00]+$"
EXPORTED_NAME_LENGTH_MAX = 256


def _exported_name(name: Any) -> Any:
    """Raises `ValueError` with a message that says what would be right."""
    if isinstance(name, str) and (not name or "=" in name or "\0" in name or len(name) > EXPORTED_NAME_LENGTH_MAX):
        raise ValueError(
            f"the name of a variable must have 1 to {EXPORTED_NAME_LENGTH_MAX} characters, without = and NUL"
        )
    return name


def _queue_path(path: str) -> str:
    """Raises `ValueError` with the rule that the path breaks."""
    if (rule := broken_path(path)) is not None:
        raise ValueError(rule)
    return path


def _preemptible(value: Any) -> Any:
    """Raises `ValueError` with a message that says what would be right."""
    if not isinstance(value, bool) and value != "surplus":
        raise ValueError(f"must be true, false or surplus, not {value!r:.100}")
    return value


def _printable(text: str) -> str:
    """Raises `ValueError` for deceptive characters: marks of direction, line separators, invisible ones."""
    odd = next((character for character in text if not character.isprintable()), None)
    if odd is not None:
        raise ValueError(f"must consist of printable characters, without U+{ord(odd):04X}")
    return text


def broken_user_name(name: str) -> str | None:
    """The rule that the name of a user breaks, beside its length and its characters.

    A space or comma would make one name look like two, and what begins as a group does would be taken for one.
    """
    if name.startswith(GROUP_PREFIX) or " " in name or "," in name:
        return f"must be a name without spaces and commas that does not begin with {GROUP_PREFIX}, not {name!r}"
    return None


def _user_name(name: str) -> str:
    """Raises `ValueError` with the rule that the name breaks."""
    if (rule := broken_user_name(name)) is not None:
        raise ValueError(rule)
    return name


def _whole_line(text: str) -> str:
    """Raises `ValueError` for spaces that nobody sees."""
    if text != text.strip():
        raise ValueError(f"must not begin or end with a space, not {text!r}")
    return text


#: Text of one line that is shown beside other text. Older stored text, which was not checked, is escaped for display.
PRINTABLE = AfterValidator(_printable)
Line = Annotated[str, StringConstraints(max_length=128, pattern=PLAIN), PRINTABLE]
#: The user of a job, whom an issuer may have named.
OwnerName = Annotated[Line, AfterValidator(_whole_line)]
#: A user whom an administrator names.
UserName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=PLAIN), PRINTABLE, AfterValidator(_user_name)
]
ClientKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN), PRINTABLE]
Text = Annotated[str, StringConstraints(max_length=ARGUMENT_LENGTH_MAX, pattern=_NO_NUL)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._/-]+$")]
BookingName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=BOOKING_NAME)]
QueuePath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=PATH_LENGTH_MAX),
    AfterValidator(_queue_path),
    WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": PATH_LENGTH_MAX, "pattern": PATH_PATTERN},
    ),
]
GpuType = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=PLAIN), PRINTABLE, AfterValidator(_whole_line)
]
LabelValue = Annotated[str, StringConstraints(max_length=256, pattern=PLAIN), PRINTABLE]
Labels = Annotated[dict[Label, LabelValue], Field(max_length=64)]
#: Name of a variable that a process can be given: without "=" and NUL; a shell's functions have such names.
ExportedName = Annotated[
    str,
    BeforeValidator(_exported_name),
    StringConstraints(min_length=1, max_length=EXPORTED_NAME_LENGTH_MAX, pattern=EXPORTED_NAME),
]
VariableName = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
#: Absolute path on a machine or in an image.
WORKDIR = r"^/[^\x00]*$"
Workdir = Annotated[str, StringConstraints(max_length=4096, pattern=WORKDIR)]
#: Path that is absolute, or relative to a directory of the submitter.
AnyWorkdir = Annotated[str, StringConstraints(max_length=4096, pattern=_NO_NUL)]
#: Whether more important jobs may take slots of a job: all, none, or those of workers beyond its minimum.
Preemptible = Annotated[bool | Literal["surplus"], BeforeValidator(_preemptible)]
SpeedAt = Annotated[list[Speed], Field(min_length=2, max_length=2)]


def _shell_or_list(command: Any) -> Any:
    if isinstance(command, str):
        if not command.strip():
            raise ValueError("must not be empty")
        return [*SHELL, command]
    return command


def _program_named(command: list[str]) -> list[str]:
    if not command[0]:
        raise ValueError("the first word, the program, must not be empty")
    return command


_TEXT_SCHEMA = {"type": "string", "maxLength": ARGUMENT_LENGTH_MAX, "pattern": r"^[^\u0000]*$"}
Command = Annotated[
    list[Text],
    Field(min_length=1, max_length=4096),
    BeforeValidator(_shell_or_list),
    AfterValidator(_program_named),
    WithJsonSchema(
        {
            "anyOf": [
                {**_TEXT_SCHEMA, "minLength": 1},
                {"type": "array", "minItems": 1, "maxItems": 4096, "items": _TEXT_SCHEMA},
            ],
        }
    ),
]


#: A field, and the rule that it breaks.
BrokenRule = tuple[str, str]


class Request(BaseModel):
    # Strict: neither `true` nor "2" is a number, since a silent guess is a surprise later.
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    def broken_rule(self) -> BrokenRule | None:
        """A rule between fields that the request breaks."""
        return None
