"""What the dashboards are called, so that panels can link to each other's."""

UTILIZATION = "sched-utilization"
QUEUE = "sched-queue"
ELASTICITY = "sched-elasticity"
JOBS = "sched-jobs"
HEALTH = "sched-health"
SERVICES = "sched-services"
