"""Every dashboard."""

from grafana.boards.elasticity import ELASTICITY
from grafana.boards.health import HEALTH
from grafana.boards.jobs import JOBS
from grafana.boards.queue import QUEUE
from grafana.boards.services import SERVICES
from grafana.boards.utilization import UTILIZATION

BOARDS = (UTILIZATION, QUEUE, ELASTICITY, JOBS, HEALTH, SERVICES)
