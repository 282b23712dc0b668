"""Log lines of the daemon and of its libraries: to stderr, for people on a terminal, as JSON elsewhere."""

import logging
import sys

import structlog

_TIME = structlog.processors.TimeStamper(fmt="iso", utc=True)


def configure_logging(*, as_json: bool | None = None) -> None:
    """Set up structlog and the standard library's logging alike. `as_json` None: unless stderr is a terminal."""
    if as_json is None:
        as_json = not sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _TIME,
        *([_with_trace] if as_json else []),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("scheduler").setLevel(logging.INFO)
    # what is wrong with a request is told to its sender: written here, anybody could fill the disk with it
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def _with_trace(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """The exception's trace as text; its last line where the trace cannot be made, as without a file left to open.

    Whoever logs an error must not be ended by another one.
    """
    error = sys.exc_info()[1]
    try:
        return structlog.processors.format_exc_info(logger, name, event)
    except Exception:
        event["exception"] = f"{type(error).__name__}: {error}"
        return event
