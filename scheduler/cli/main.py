"""The entry point, and the one place where an error becomes a line and an exit status."""

import errno
import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from scheduler.cli.client.discovery import print_hosts_at_once
from scheduler.cli.exits import Exit, status_of
from scheduler.cli.render.output import note
from scheduler.errors import SchedulerError, plain_rule

if TYPE_CHECKING:
    import typer

#: What a full disk, and a pipe that nobody reads any more, say to who prints.
_OUTPUT_FAILS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def app() -> NoReturn:
    """The `sched` command."""
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit status; no error goes further up."""
    words = sys.argv[1:] if arguments is None else arguments
    _open_streams()
    try:
        status = Exit.OK if print_hosts_at_once(words) else _run_command(words)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()
        return Exit.BROKEN_PIPE
    except OSError as error:
        _drop_output()
        note(f"sched: cannot write output: {error.strerror}")
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _open_streams() -> None:
    """Let stdin be read and stdout and stderr take every text, also where they are closed or lack some characters."""
    for name, flag, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flag), mode))
        elif isinstance(stream, TextIOWrapper) and mode == "w":
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is left in the buffer would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command(words: list[str]) -> int:
    import typer

    from scheduler.cli.root import root

    try:
        status = typer.main.get_command(root).main(words, prog_name="sched", standalone_mode=False)
        return status if isinstance(status, int) else Exit.OK
    except SchedulerError as error:
        note(f"sched: {error}")
        return status_of(error)
    except typer.TyperException as error:
        if error.format_message():  # empty where help was shown instead
            note(f"sched: {_usage_message(error)}")
        return Exit.USAGE
    except (typer.Abort, EOFError):
        return Exit.INTERRUPTED
    except SystemExit as ended:  # so the library ends options of completion, and where nobody reads any more
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        return Exit.USAGE if ended.code else Exit.OK
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_FAILS:
            raise
        if os.environ.get("SCHED_DEBUG"):
            raise
        note(f"sched: {type(error).__name__}: {error} (internal error: set SCHED_DEBUG=1 for a traceback)")
        return Exit.DEFECT


def _usage_message(error: "typer.TyperException") -> str:
    """What was wrong with the command line, and where to read how it goes."""
    what, colon, rule = " ".join(error.format_message().split()).rstrip(".").partition(": ")
    message = f"{what}{colon}{plain_rule(rule)}"
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "sched"
    return f'{message} (see "{path} --help")'
