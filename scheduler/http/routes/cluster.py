"""The whole cluster at a glance, for live views."""

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler import __version__
from scheduler.engine.ports import Leader
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.schemas.held import HeldView, held_views
from scheduler.http.schemas.node_views import NodeView, node_views
from scheduler.http.schemas.unreadable import UnreadableView, unreadable_views
from scheduler.http.schemas.views import JobView, job_view
from scheduler.http.services import Services, ServicesDep
from scheduler.model.job import Job

router = APIRouter(tags=["cluster"])


class LeaderView(TypedDict):
    #: Its name.
    name: str
    #: Number of its leadership.
    term: int
    #: Address at which replicas reach it.
    url: str | None


class ClusterView(TypedDict):
    #: Clock of the daemon; unix seconds.
    time: float
    #: Version of the daemon.
    version: str
    #: Number of this daemon's leadership; null: it does not lead.
    term: int | None
    #: The leader; null: there is none, as far as this daemon knows.
    leader: LeaderView | None
    #: Why nothing is being decided; null: all is well.
    not_ready: str | None
    #: Jobs, nodes and pods that decisions leave out, because the scheduler failed while it dealt with them.
    held: list[HeldView]
    #: Troubles that do not stop decisions, one line each.
    troubles: list[str]
    #: Slots of nodes that are up.
    slots_total: int
    #: Slots of these nodes that workers hold.
    slots_used: int
    #: All nodes.
    nodes: list[NodeView]
    #: Number of jobs in each state.
    jobs_by_state: dict[str, int]
    #: Rows of the database that cannot be read, as far as this daemon has met them, and at most a page of them.
    unreadable: list[UnreadableView]
    #: Number of such rows that it has met.
    unreadable_count: int
    #: Jobs with workers, then those that wait, at most a page of them.
    jobs: list[JobView]


@router.get("/v1/cluster", response_model=ClusterView, responses=documented())
def show_cluster(services: ServicesDep) -> Response:
    """Get slots, nodes, the number of jobs by state, and the jobs that have not ended."""
    world = services.board.world
    nodes = node_views(world.nodes.values() if world is not None else services.store.list_nodes(), world)
    unreadable = services.store.unreadable
    up = [node for node in nodes if node["health"] == "UP"]
    view: ClusterView = {
        "time": services.clock.now(),
        "version": __version__,
        "term": services.term(),
        "leader": leader_view(services.leader()),
        "not_ready": services.not_ready(),
        "held": held_views(world) if world is not None else [],
        "troubles": services.troubles(),
        "slots_total": sum(node["slots"] for node in up),
        "slots_used": sum(node["slots_used"] for node in up),
        "nodes": nodes,
        "jobs_by_state": {str(state): count for state, count in services.store.count_jobs().items()},
        "unreadable": unreadable_views(unreadable[: services.settings.http.page_size_max]),
        "unreadable_count": len(unreadable),
        "jobs": [job_view(job, services.reports) for job in _present(services)],
    }
    return JsonResponse(view)


def leader_view(leader: Leader | None) -> LeaderView | None:
    return None if leader is None else {"name": leader.name, "term": leader.term, "url": leader.url}


def _present(services: Services) -> list[Job]:
    world = services.board.world
    if world is None:
        return []
    active = sorted(world.active.values(), key=lambda job: (-job.priority, job.id))
    waiting = sorted(
        [*world.held.values(), *world.queued.values(), *world.suspended.values()],
        key=lambda job: (job.state, -job.priority, job.id),
    )
    return [*active, *waiting][: services.settings.http.page_size_max]
