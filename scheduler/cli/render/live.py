"""A view that is drawn again and again, until Ctrl-C; while the daemon is away the last one stays, under a line."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.cli.exits import Unavailable, Unreachable
from scheduler.cli.render.output import console

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Draws the current state for a terminal of the given number of lines; may fail while the daemon is unreachable.
Look = Callable[[int], "RenderableType"]


def redraw(
    look: Look, *, interval_seconds: float, screen: bool = False, go_on: Callable[[], bool] = lambda: True
) -> None:
    """Show it on stdout while `go_on()` holds. `screen`: use the whole terminal and restore it at the end."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    target = console()
    picture, away = look(target.height), ""
    with Live(console=target, screen=screen, auto_refresh=False, transient=screen) as live:
        while go_on():
            live.update(Group(Text(away, style="red"), picture) if away else picture, refresh=True)
            time.sleep(interval_seconds)
            try:
                picture, away = look(target.height), ""
            except (Unreachable, Unavailable) as error:
                away = str(error)
