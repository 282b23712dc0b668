"""The message that a webhook gets: one event as JSON, and headers that prove where it comes from.

The headers are those of Standard Webhooks (https://www.standardwebhooks.com), so that its libraries can check them.
"""

import base64
import hashlib
import hmac

import orjson

from scheduler import __version__
from scheduler.config.webhook_secret import key_of
from scheduler.http.runtime.wall_time import in_wall_time
from scheduler.http.schemas.views import event_view
from scheduler.store.requests.webhooks import Outgoing

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"


def body_of(outgoing: Outgoing, ahead_seconds: float) -> bytes:
    """The event as `/v1/events` shows it, with its job's name and user.

    The same event gives the same bytes, unless the machine's clock is set between two tries.
    """
    told = {**event_view(outgoing.id, outgoing.event), "job_name": outgoing.job_name, "user": outgoing.user}
    return orjson.dumps(in_wall_time(told, ahead_seconds))


def headers_of(webhook: str, outgoing: Outgoing, body: bytes, secret: str, wall: float) -> dict[str, str]:
    """Headers of one attempt. Every attempt of an event has the same id; id, time and body are signed."""
    message_id, timestamp = str(outgoing.id), str(int(wall))
    return {
        "content-type": "application/json",
        "user-agent": f"sched/{__version__}",
        "x-sched-webhook": webhook,
        "x-sched-event": outgoing.event.kind.value,
        ID: message_id,
        TIMESTAMP: timestamp,
        SIGNATURE: signature(key_of(secret), message_id, timestamp, body),
    }


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """`v1,` and the HMAC-SHA256 of id, timestamp and body with full stops between them, in base64."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
