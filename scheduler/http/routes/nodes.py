"""Nodes, and requests to cordon, drain and uncordon them."""

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import NotFound
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.schemas.node_views import NodeView, node_views
from scheduler.http.schemas.parameters import NodePath
from scheduler.http.services import Services, ServicesDep
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind

router = APIRouter(tags=["nodes"])


class NodeList(TypedDict):
    #: All nodes.
    nodes: list[NodeView]
    #: Why no decisions are made now, so that this list may be out of date; null: all is well.
    not_ready: str | None


class AcceptedNodeView(TypedDict):
    #: Name of the node.
    name: str


@router.get("/v1/nodes", response_model=NodeList, responses=documented())
def list_nodes(services: ServicesDep) -> Response:
    """List all nodes with their workers."""
    world = services.board.world
    nodes = world.nodes.values() if world is not None else services.store.list_nodes()
    view: NodeList = {"nodes": node_views(nodes, world), "not_ready": services.not_ready()}
    return JsonResponse(view)


@router.post("/v1/nodes/{name}/cordon", status_code=202, response_model=AcceptedNodeView, responses=documented(404))
def cordon_node(services: ServicesDep, name: NodePath) -> Response:
    """Start no new workers on a node."""
    return _ask(services, name, IntentKind.CORDON)


@router.post("/v1/nodes/{name}/uncordon", status_code=202, response_model=AcceptedNodeView, responses=documented(404))
def uncordon_node(services: ServicesDep, name: NodePath) -> Response:
    """Allow workers on a node again; also ends a quarantine."""
    return _ask(services, name, IntentKind.UNCORDON)


@router.post("/v1/nodes/{name}/drain", status_code=202, response_model=AcceptedNodeView, responses=documented(404))
def drain_node(services: ServicesDep, name: NodePath) -> Response:
    """Cordon a node and move its workers to others."""
    return _ask(services, name, IntentKind.DRAIN)


def _ask(services: Services, name: str, kind: IntentKind) -> Response:
    node = NodeName(name)
    world = services.board.world
    known = world.nodes if world is not None else {stored.name for stored in services.store.list_nodes()}
    if node not in known:
        raise NotFound(f"node {name} not found")
    services.store.add_intent(kind, services.clock.now(), node=node)
    services.wake()
    view: AcceptedNodeView = {"name": name}
    return JsonResponse(view, status_code=202)
