"""`sched book`, `bookings`, `unbook`: capacity promised for a window of time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.cli.client.resolve import in_address
from scheduler.cli.command import BOOKINGS, Session, command
from scheduler.cli.commands.batch import ask_each
from scheduler.cli.completion import complete_booking
from scheduler.cli.exits import Cut, TooMany, Unavailable
from scheduler.cli.input.flags import job_option
from scheduler.cli.input.quantities import duration_seconds, memory_mib, moment, pairs
from scheduler.cli.input.source import options_named
from scheduler.cli.render.output import Cell, Column, emit_json, note, say, show, table
from scheduler.cli.render.tables import mapping, state_cell
from scheduler.cli.render.times import ago, span, stamp
from scheduler.errors import NotFound
from scheduler.model.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]

#: Options that have another name than the field that they set.
_OPTION_OF = {
    "start_at": "--start",
    "duration_seconds": "--duration",
    "cpus_per_worker": "--cpus",
    "memory_mib_per_worker": "--memory",
}

#: Fields of the answer to a new booking.
_ACCEPTED = ("name", "start_at", "end_at", "slots")
#: What a booking has where the request does not say.
_WITHOUT: View = {
    "cpus_per_worker": 0.0,
    "memory_mib_per_worker": 0,
    "gpu_type": None,
    "node_selector": {},
    "user": None,
    "priority_min": None,
}
#: A start that has passed becomes the present; other moments differ by roundings.
_LATE_SECONDS, _ROUNDED_SECONDS = 60.0, 0.001


@dataclass(frozen=True, slots=True)
class Booked:
    """The capacity that is booked, for whom, and from when on; None: not given."""

    start: Annotated[
        str,
        typer.Option(
            "--start", metavar="TIME", help='Start of the window: 18:00, "in 30m" or 2030-05-01T18:00, local time.'
        ),
    ] = "now"
    slots: Annotated[int | None, typer.Option("--slots", help="Number of slots.")] = None
    nodes: Annotated[int | None, typer.Option("--nodes", help="Number of whole nodes, instead of --slots.")] = None
    slots_per_worker: Annotated[
        int | None, job_option("slots_per_worker", "--slots-per-worker", hint=" (default: 1)")
    ] = None
    cpus: Annotated[float | None, job_option("cpus_per_worker", "--cpus")] = None
    memory: Annotated[
        str | None, job_option("memory_mib_per_worker", "--memory", metavar="SIZE", hint=": 512MiB, 4GiB")
    ] = None
    gpu_type: Annotated[str | None, job_option("gpu_type", "--gpu-type")] = None
    node_selector: Annotated[
        list[str] | None,
        job_option("node_selector", "--node-selector", metavar="KEY=VALUE", hint="; repeatable"),
    ] = None
    user: Annotated[str | None, typer.Option("--user", help="Reserve for jobs of this user.")] = None
    priority_min: Annotated[
        int | None, typer.Option("--priority-min", help="Reserve for jobs of at least this priority.")
    ] = None

    def request(self, now: float) -> dict[str, Any]:
        """The fields of a request that these options set."""
        given = {
            "start_at": moment(self.start, "--start", now),
            "slots": self.slots,
            "nodes": self.nodes,
            "slots_per_worker": self.slots_per_worker,
            "cpus_per_worker": self.cpus,
            "memory_mib_per_worker": None if self.memory is None else memory_mib(self.memory, "--memory"),
            "gpu_type": self.gpu_type,
            "node_selector": pairs(self.node_selector or [], "--node-selector") or None,
            "user": self.user,
            "priority_min": self.priority_min,
        }
        return {key: value for key, value in given.items() if value is not None}


def book(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the booking; jobs use it as sched submit --booking NAME.")
    ],
    duration: Annotated[str, typer.Option("--duration", metavar="DURATION", help="Length of the window: 45m, 2h, 1d.")],
    booked: Booked,
) -> None:
    """Book capacity for a time window, for the jobs that name the booking.

    Before the window starts, other jobs use the slots if they can leave in time: elastic jobs grow into them and shrink
    before the start.
    """
    window = {"duration_seconds": duration_seconds(duration, "--duration")}
    request = {"name": name, **window, **booked.request(session.clock.now())}
    with options_named(_OPTION_OF):
        answer = _book_once(session, request)
    if session.json:
        emit_json(answer)
    else:
        told = f"from {stamp(answer['start_at'])} for {span(answer['end_at'] - answer['start_at'])}"
        say(f"booking {name}: {counted(answer['slots'], 'slot')} {told}")


def _book_once(session: Session, request: View) -> View:
    """The daemon's answer to one new booking, however often it has to be asked."""

    def made() -> View | None:
        """The booking of this name, if it is the one that was asked for."""
        try:
            view: View = session.client.get(f"/v1/bookings/{in_address('booking', request['name'])}")
        except NotFound:
            return None
        return {key: view[key] for key in _ACCEPTED} if _is_as_asked(view, request) else None

    try:
        answer: View = session.client.post_once("/v1/bookings", request, made)
    except TooMany:
        raise
    except (Cut, Unavailable) as error:
        raise type(error)(f"{error}; the booking may have been made: see sched bookings") from None
    return answer


def _is_as_asked(view: View, request: View) -> bool:
    late_seconds = view["start_at"] - request["start_at"]
    longer_seconds = view["end_at"] - view["start_at"] - request["duration_seconds"]
    if not (-_ROUNDED_SECONDS < late_seconds < _LATE_SECONDS and abs(longer_seconds) < _ROUNDED_SECONDS):
        return False
    sizes = {"nodes": "workers", "slots": "slots", "slots_per_worker": "slots_per_worker"}
    others = all(view[field] == request.get(field, without) for field, without in _WITHOUT.items())
    return others and all(view[name] == request[field] for field, name in sizes.items() if field in request)


def bookings(session: Session) -> None:
    """List bookings with their window, slots, users and jobs."""
    view = session.client.get("/v1/bookings")
    if session.json:
        emit_json(view)
    elif not view["bookings"]:
        note("no bookings")
    else:
        show(_booking_table(view["bookings"], session.clock.now()))


def unbook(
    session: Session,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names of bookings.", autocompletion=complete_booking)
    ],
) -> None:
    """Cancel bookings; their jobs continue as ordinary jobs."""

    def ask(name: str) -> str:
        with options_named({"name": "NAME"}):
            session.client.delete(f"/v1/bookings/{in_address('booking', name)}")
        return name

    ask_each(session, names, ask, "booking {} cancelled".format)


def _booking_table(views: list[View], now: float) -> "RenderableType":
    columns = (
        Column("BOOKING"),
        Column("STATE"),
        Column("START"),
        Column("END"),
        Column("SLOTS", right=True),
        Column("ON", fold=True),
        Column("FOR", fold=True),
        Column("JOBS", fold=True),
    )
    rows: list[list[Cell]] = [
        [
            view["name"],
            state_cell(view["state"]),
            f"{stamp(view['start_at'])} ({ago(view['start_at'], now)})",
            ago(view["end_at"], now),
            f"{view['slots_used']}/{view['slots']}",
            _where(view),
            _for_whom(view),
            ",".join(map(str, view["jobs"])) or "-",
        ]
        for view in views
    ]
    return table(columns, rows)


def _where(view: View) -> str:
    together = f"{view['workers']}×{view['slots_per_worker']}" if view["slots_per_worker"] > 1 else ""
    return " ".join(filter(None, (together, view["gpu_type"], mapping(view["node_selector"])))) or "-"


def _for_whom(view: View) -> str:
    priority = "" if view["priority_min"] is None else f"priority ≥ {view['priority_min']}"
    return ", ".join(filter(None, (view["user"], priority))) or "-"


def register(app: typer.Typer) -> None:
    command(app, "book", BOOKINGS)(book)
    command(app, "bookings", BOOKINGS)(bookings)
    command(app, "unbook", BOOKINGS)(unbook)
