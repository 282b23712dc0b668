"""`sched queue`: the queues among which the slots of the cluster are divided."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from scheduler.cli.command import Session, command
from scheduler.cli.completion import complete_queue
from scheduler.cli.input.source import options_named
from scheduler.cli.render.output import Cell, Column, emit_json, fields, note, say, show, table
from scheduler.cli.render.times import stamp
from scheduler.errors import InvalidInput
from scheduler.model.queue import ANY_GPU
from scheduler.model.queue_tree import check_path
from scheduler.model.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="Path of the queue: lab/vision.", autocompletion=complete_queue)
]

#: What takes a value away.
_NONE = "none"
_SLOTS = "SLOTS|GPU=SLOTS"
#: Options that have another name than the field that they set.
_OPTION_OF = {"members": "--member", "add_members": "--add", "remove_members": "--remove"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What is set of a queue; None: not given."""

    guarantee: Annotated[
        list[str] | None,
        typer.Option(
            "--guarantee", metavar=_SLOTS, help="Slots that its jobs get back whenever they need them; repeatable."
        ),
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar=_SLOTS, help="Slots that its jobs never exceed together; repeatable."),
    ] = None
    weight: Annotated[
        str | None,
        typer.Option(
            "--weight",
            metavar="NUMBER",
            help="Its part of what is lent, against that of the queues beside it (default: 1).",
        ),
    ] = None
    share_users: Annotated[
        bool | None,
        typer.Option("--share-users/--no-share-users", help="Divide what it has among its users (default: no)."),
    ] = None
    user_limit: Annotated[
        str | None, typer.Option("--user-limit", metavar="SLOTS", help="Slots that one user may hold in it.")
    ] = None
    priority_max: Annotated[
        str | None, typer.Option("--priority-max", metavar="NUMBER", help="Highest priority of its jobs.")
    ] = None
    max_jobs: Annotated[
        str | None, typer.Option("--max-jobs", metavar="NUMBER", help="Jobs that it may contain before they end.")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="SLOT-HOURS", help="Slot-hours that its jobs may hold in a calendar month (UTC)."
        ),
    ] = None
    member: Annotated[
        list[str] | None,
        typer.Option(
            "--member", metavar="USER|@GROUP", help="Who may submit to it (default: as its parent says); repeatable."
        ),
    ] = None

    def request(self) -> View:
        """The fields of a request that these options set; null for those that are taken away."""
        given = {
            "guarantee": _slots(self.guarantee, "--guarantee"),
            "limit": _slots(self.limit, "--limit"),
            "weight": _number(self.weight, "--weight", float),
            "user_limit": _number(self.user_limit, "--user-limit", int),
            "priority_max": _number(self.priority_max, "--priority-max", int),
            "max_jobs": _number(self.max_jobs, "--max-jobs", int),
            "budget": _number(self.budget, "--budget", int),
            "members": _members(self.member),
        }
        request = {key: value[0] for key, value in given.items() if value}
        return request if self.share_users is None else {**request, "share_users": self.share_users}


def create(session: Session, path: PathArgument, rules: Rules) -> None:
    """Create a queue. The queue that would contain it must exist: create lab before lab/vision.

    A queue whose row of the database cannot be read is replaced.
    """
    request = {key: value for key, value in rules.request().items() if value is not None}
    for key in ("guarantee", "limit"):
        if key in request:
            request[key] = {kind: slots for kind, slots in request[key].items() if slots is not None}
    _answer(session, "POST", "/v1/queues", {"path": path, **request}, f"queue {path} created")


def change(session: Session, path: PathArgument, rules: Rules) -> None:
    """Change a queue. Only what is given changes.

    "none" takes a value away, also that of one GPU type: --limit H100=none.
    """
    request = rules.request()
    if not request:
        raise InvalidInput("sched queue set", "give what to change, such as --limit 16 or --limit none")
    _answer(session, "PATCH", _address(path), request, f"queue {path} set")


def show_one(session: Session, path: PathArgument) -> None:
    """Show a queue: what is set of it, its jobs, and the slots that they hold."""
    view = session.client.get(_address(path))
    if session.json:
        emit_json(view)
    else:
        show(_fields(view))


def show_all(session: Session) -> None:
    """List all queues as a tree, with their jobs and the slots that these hold."""
    view = session.client.get("/v1/queues")
    if session.json:
        emit_json(view)
    elif not view["queues"]:
        note("no queues: create one with sched queue create PATH")
    else:
        show(_tree(view["queues"]))


def delete(session: Session, path: PathArgument) -> None:
    """Delete a queue that contains neither queues nor jobs that have not ended.

    Recurring jobs and valid tokens that name it must be cancelled and revoked first.
    """
    session.client.delete(_address(path))
    if session.json:
        emit_json({"path": path})
    else:
        say(f"queue {path} deleted")


def members(
    session: Session,
    path: PathArgument,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="USER|@GROUP", help="Add a member; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="USER|@GROUP", help="Remove a member; repeatable.")
    ] = None,
) -> None:
    """List the users and groups that may submit to a queue, after adding and removing some.

    A queue without members has those of the queue that contains it; where there are none at all, everybody may submit.
    """
    if add or remove:
        change = {"add_members": add or [], "remove_members": remove or []}
        view = _send(session, "PATCH", _address(path), change)
    else:
        view = session.client.get(_address(path))
    if session.json:
        emit_json({"path": path, "members": view["members"]})
        return
    for member in view["members"]:
        say(member)
    if not view["members"]:
        note(f"queue {path} has no members of its own: whoever may submit to its parent may submit to it")


def _address(path: str) -> str:
    """Raises `InvalidInput` for a path that no queue may have: as an address it could mean something else."""
    check_path("PATH", path)
    return f"/v1/queues/{quote(path)}"


def _answer(session: Session, method: str, address: str, request: View, said: str) -> None:
    view = _send(session, method, address, request)
    for warning in view.get("warnings") or ():
        note(f"sched: queue {view['path']}: {warning}")
    if session.json:
        emit_json(view)
    else:
        say(said)


def _send(session: Session, method: str, address: str, request: View) -> View:
    """The daemon's answer; a field that it refuses is named as its option."""
    ask = session.client.post if method == "POST" else session.client.patch
    with options_named(_OPTION_OF):
        view: View = ask(address, request)
    return view


def _slots(given: list[str] | None, option: str) -> tuple[dict[str, int | None] | None, ...]:
    """Slots by GPU type as the one value of a field, None for all taken away; empty: not given."""
    if not given:
        return ()
    if _NONE in given:
        _check_alone(given, option)
        return (None,)
    found: dict[str, int | None] = {}
    for text in given:
        kind, equals, count = text.rpartition("=")
        kind = kind if equals else ANY_GPU
        if not kind or kind in found or "=" in kind or "," in kind:
            rule = "must be a number of slots, or GPU=SLOTS with each type once, in an option of its own"
            raise InvalidInput(option, f"{rule}, not {text!r}")
        found[kind] = _number(count, option, int)[0]
    return (found,)


def _number(text: str | None, option: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """The number as the one value of a field, None for "none"; empty: not given."""
    if text is None or text == _NONE:
        return () if text is None else (None,)
    try:
        number = kind(text)
        if not math.isfinite(number):
            raise ValueError
        return (number,)
    except (ValueError, OverflowError):
        noun = "a whole number" if kind is int else "a number"
        raise InvalidInput(option, f"must be {noun}, or {_NONE}, not {text!r}") from None


def _members(given: list[str] | None) -> tuple[list[str] | None, ...]:
    if not given:
        return ()
    if _NONE in given:
        _check_alone(given, "--member")
        return (None,)
    return (given,)


def _check_alone(given: list[str], option: str) -> None:
    """Raise `InvalidInput` where something is given beside "none"."""
    if len(given) > 1:
        raise InvalidInput(option, f"{_NONE} takes all away: it cannot be combined with others")


def _tree(views: Sequence[View]) -> "RenderableType":
    columns = (
        Column("QUEUE"),
        Column("GUARANTEE", fold=True),
        Column("LIMIT", fold=True),
        Column("WEIGHT", right=True),
        Column("HELD", right=True),
        Column("ENTITLED", right=True),
        Column("RUNNING", right=True),
        Column("WAITING", right=True),
        Column("MEMBERS", fold=True),
    )
    rows: list[list[Cell]] = [
        [
            "  " * view["path"].count("/") + view["path"].rpartition("/")[2],
            _slots_shown(view["guarantee"]),
            _slots_shown(view["limit"]),
            f"{view['weight']:g}",
            str(view["slots_held"]),
            _share_shown(view["slots_entitled"]),
            str(view["jobs_running"]),
            _waiting(view),
            " ".join(view["members"]) or "-" if view["readable"] else ("its row cannot be read", "red"),
        ]
        for view in sorted(views, key=lambda view: view["path"].split("/"))
    ]
    return table(columns, rows)


def _waiting(view: View) -> str:
    most = view["max_jobs"]
    return str(view["jobs_waiting"]) + ("" if most is None else f" (at most {most} in all)")


def _fields(view: View) -> "RenderableType":
    rows: list[tuple[str, Cell]] = [
        ("queue", view["path"]),
        ("guarantee", _slots_shown(view["guarantee"])),
        ("limit", _slots_shown(view["limit"])),
        ("weight", f"{view['weight']:g}"),
        ("shared by user", "yes" if view["share_users"] else "no"),
        ("limit of a user", _or_dash(view["user_limit"])),
        ("highest priority", _or_dash(view["priority_max"])),
        ("jobs at most", _or_dash(view["max_jobs"])),
        ("budget of a month", _budget_shown(view)),
        ("members", " ".join(view["members"]) or "-"),
        ("slots held", str(view["slots_held"])),
        ("held or waited for", _share_shown(view["slots_wanted"])),
        ("entitled to", _share_shown(view["slots_entitled"])),
        ("of them guaranteed", _share_shown(view["slots_guaranteed"])),
        ("jobs running", str(view["jobs_running"])),
        ("jobs waiting", str(view["jobs_waiting"])),
        ("created", stamp(view["created_at"])),
    ]
    return fields(rows + [(f"user {user['user']}", _user_shown(user)) for user in view["users"]])


def _budget_shown(view: View) -> str:
    budget = "-" if view["budget"] is None else f"{view['budget']:,} slot-hours"
    return f"{budget} (spent)" if view["budget_spent"] else budget


def _user_shown(user: View) -> str:
    wanted, entitled = _share_shown(user["slots_wanted"]), _share_shown(user["slots_entitled"])
    return f"{counted(user['slots_held'], 'slot')} held, {wanted} held or waited for, entitled to {entitled}"


def _share_shown(slots: float | None) -> str:
    return "-" if slots is None else f"{round(slots, 1):g}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _slots_shown(slots: dict[str, int]) -> str:
    return " ".join(str(count) if kind == ANY_GPU else f"{kind}={count}" for kind, count in slots.items()) or "-"


def register(app: typer.Typer) -> None:
    command(app, "create")(create)
    command(app, "set")(change)
    command(app, "show")(show_one)
    command(app, "list")(show_all)
    command(app, "delete")(delete)
    command(app, "members")(members)
