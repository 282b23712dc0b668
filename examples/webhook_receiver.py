"""A receiver of webhooks: checks each message's signature and age, and takes an event once however often it comes.

`WEBHOOK_SECRET=... python examples/webhook_receiver.py [PORT]` prints a line for each event.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: An older message may be one that somebody has recorded and sends again.
AGE_SECONDS_MAX = 300


def verified(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether a sender that knows the secret sent this body recently. Pass the body as received, before parsing it."""
    prefixed = secret.startswith("whsec_")
    key = base64.b64decode(secret.removeprefix("whsec_")) if prefixed else secret.encode()
    sent_at = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    genuine = hmac.compare_digest(headers.get("webhook-signature", "").encode(), expected.encode())
    return genuine and sent_at.isdecimal() and abs(now - int(sent_at)) <= AGE_SECONDS_MAX


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 for an event that it has, 401 for what is not genuine: that is sent again."""

    protocol_version = "HTTP/1.1"
    secret = os.environ.get("WEBHOOK_SECRET", "")
    #: Ids ascend, so the newest one tells repeats. A real receiver keeps it where it keeps what it does with events.
    newest = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = verified(self.secret, self.headers, body, time.time())
        if genuine:
            self.take(json.loads(body))
        self.send_response(204 if genuine else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def take(self, event: dict[str, object]) -> None:
        if int(str(event["id"])) > type(self).newest:
            type(self).newest = int(str(event["id"]))
            print(f"{event['kind']} job {event['job_id']} {event['job_name']} {event['detail']}", flush=True)

    def log_message(self, *_: object) -> None:
        """Said by `take` instead."""


if __name__ == "__main__":
    if len(Receiver.secret) < 16:
        sys.exit("set WEBHOOK_SECRET to the webhook's secret")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 8080), Receiver).serve_forever()
