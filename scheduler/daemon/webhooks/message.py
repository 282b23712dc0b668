"""What is sent to a webhook: one event as JSON, and headers that prove where it comes from."""

import hashlib
import hmac

import orjson

from scheduler import __version__
from scheduler.http.runtime.wall_time import in_wall_time
from scheduler.http.schemas.views import event_view
from scheduler.store.requests.webhooks import Outgoing

TIMESTAMP = "x-sched-timestamp"
SIGNATURE = "x-sched-signature"


def body_of(outgoing: Outgoing, ahead_seconds: float) -> bytes:
    """The event as `/v1/events` shows it, with its job's name and user.

    The same event gives the same bytes, unless the machine's clock is set between two tries.
    """
    told = {**event_view(outgoing.id, outgoing.event), "job_name": outgoing.job_name, "user": outgoing.user}
    return orjson.dumps(in_wall_time(told, ahead_seconds))


def headers_of(webhook: str, outgoing: Outgoing, body: bytes, secret: str, wall: float) -> dict[str, str]:
    """Receivers tell repeated events by their id, and old messages by the time of this try, which is signed, too."""
    timestamp = str(int(wall))
    return {
        "content-type": "application/json",
        "user-agent": f"sched/{__version__}",
        "x-sched-webhook": webhook,
        "x-sched-event": outgoing.event.kind.value,
        "x-sched-event-id": str(outgoing.id),
        TIMESTAMP: timestamp,
        SIGNATURE: f"v1={signature(secret, timestamp, body)}",
    }


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 of the timestamp, a full stop and the body, in hexadecimal digits."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
