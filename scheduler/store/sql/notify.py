"""What replicas tell each other through PostgreSQL (LISTEN and NOTIFY), so that nobody has to wait for its next look.

Only that something happened is told, not what: whoever hears it looks. What is lost, while a connection is, costs
nothing but the time until the next look.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection, Text, bindparam, create_engine, func, select
from sqlalchemy.pool import NullPool

from scheduler.backoff import Backoff
from scheduler.engine.timing.repeating import one_line
from scheduler.store.sql.database import CONNECT_TIMEOUT_SECONDS, Database

if TYPE_CHECKING:
    import psycopg

log = structlog.get_logger(__name__)

CHANNEL = "sched"
#: A thread that listens looks this often whether it is to end.
LOOK_SECONDS = 0.5
RETRY = Backoff(0.2, 5.0)
#: A server that has vanished without a word is given up after idle + interval * count.
_KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


#: Put together once: it is a part of every request and commit.
_NOTIFY = select(func.pg_notify(CHANNEL, bindparam("payload", type_=Text)))


class Word(StrEnum):
    #: A user's request was stored: for who leads.
    ASKED = "asked"
    #: The leader has committed or renewed its lease, or another one has it, or nobody: for all others.
    LED = "led"


def announce(connection: Connection, word: Word, sender: str) -> None:
    """Tell all listeners once the transaction commits; equal words of one transaction are told once."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"payload": f"{word} {sender}"})


class Listener:
    """Hears what other processes announce, on a thread that connects again whenever the connection is lost.

    After each connection both callbacks are called, since something may have been missed before.
    """

    def __init__(
        self, database: Database, sender: str, on_asked: Callable[[], None], on_led: Callable[[], None]
    ) -> None:
        """`sender`: whose own announcements are not heard."""
        self._where = database.where
        self._sender = sender
        self._calls = {Word.ASKED: on_asked, Word.LED: on_led}
        self._engine = create_engine(
            database.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "sched", **_KEEPALIVES},
        )
        self._closed = threading.Event()
        #: Why it hears nothing now; None: it does.
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear nothing any more."""
        self._closed.set()
        self._thread.join(CONNECT_TIMEOUT_SECONDS)
        self._engine.dispose()

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set():
            try:
                with closing(self._engine.raw_connection()) as connection:
                    failures = 0
                    self._listen(connection.driver_connection)  # type: ignore[arg-type]
            except Exception as error:  # nothing that is missed is lost, but others would wait for each look
                self.trouble = f"listening to other replicas: {one_line(error)}"
                failures += 1
                if not self._closed.wait(RETRY.pause_seconds(failures)):
                    log.warning("listening to other replicas again", database=self._where, reason=one_line(error))

    def _listen(self, connection: "psycopg.Connection[object]") -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self.trouble = None
        for call in self._calls.values():
            call()
        while not self._closed.is_set():
            for notice in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                word, _, sender = notice.payload.partition(" ")
                if sender != self._sender and word in self._calls:
                    self._calls[Word(word)]()
