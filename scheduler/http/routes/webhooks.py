"""Webhooks: their receivers, the events that they get, and the state of delivery."""

from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.config import WebhookSettings
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.services import Services, ServicesDep
from scheduler.store.records import Delivery

router = APIRouter(tags=["operation"])

#: Limit on the count of waiting events.
WAITING_MAX = 10_000


class WebhookView(TypedDict):
    #: Its name in the settings.
    name: str
    #: Its URL without the path, which may be a secret.
    receiver: str
    #: Kinds of events; empty: all.
    events: list[str]
    #: Id of the event up to which all are delivered; null: no leader has begun with it yet.
    position: int | None
    #: Number of delivered events.
    delivered: int
    #: When the last event was delivered; null: none was.
    delivered_at: float | None
    #: Number of events that are not delivered yet, at most 10,000.
    waiting: int
    #: Failed tries of the next event in a row.
    attempts: int
    #: Since when delivery of the next event fails; null: it does not.
    failing_since: float | None
    #: Time of the next try; null: all is well.
    next_try_at: float | None
    #: Why the last try failed; null: all is well.
    error: str | None


class WebhookList(TypedDict):
    #: The webhooks, in the order of the settings.
    webhooks: list[WebhookView]


@router.get("/v1/webhooks", response_model=WebhookList, responses=documented())
def list_webhooks(services: ServicesDep) -> Response:
    """List the webhooks in the settings of this daemon."""
    stored = {delivery.name: delivery for delivery in services.store.list_deliveries()}
    webhooks = services.settings.webhooks
    view: WebhookList = {"webhooks": [_view(services, name, webhooks[name], stored.get(name)) for name in webhooks]}
    return JsonResponse(view)


def _view(services: Services, name: str, settings: WebhookSettings, delivery: Delivery | None) -> WebhookView:
    waiting = 0
    if delivery is not None:
        waiting = services.store.count_events_after(delivery.position, settings.events, WAITING_MAX)
    at = urlsplit(settings.url)
    known = delivery or Delivery(name, 0)
    return {
        "name": name,
        "receiver": f"{at.scheme}://{at.netloc.rpartition('@')[2]}",
        "events": list(settings.events),
        "position": None if delivery is None else delivery.position,
        "delivered": known.delivered,
        "delivered_at": known.delivered_at,
        "waiting": waiting,
        "attempts": known.attempts,
        "failing_since": known.failing_since,
        "next_try_at": known.next_try_at,
        "error": known.error,
    }
