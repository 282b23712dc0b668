"""The queue of a TrainingJob's job: its namespace decides, for the cluster lets only some create objects there.

The user that an object names is anybody's word, and opens no queue.
"""

from dataclasses import replace

from scheduler.errors import InvalidInput
from scheduler.model.job import Job, JobSpec
from scheduler.model.queue import ROOT
from scheduler.model.queue_tree import Queues, check_exists, check_priority, default_queue, not_a_member


def into_queue(spec: JobSpec, job: Job | None, queues: Queues, namespace: str) -> JobSpec:
    """The job in the queue that it names, else in that of its namespace; a job that was submitted stays where it is.

    A namespace is a member of a queue as the group `namespace:NAME`. Raises `InvalidInput` with the field of the
    object.
    """
    tenant, groups = f"namespace {namespace}", (f"namespace:{namespace}",)
    try:
        if job is not None:
            if spec.priority != job.priority:
                check_priority(queues, job.spec.queue, spec.priority)
            return spec if spec.queue != ROOT else replace(spec, queue=job.spec.queue)
        queue = default_queue(queues, tenant, groups) if spec.queue == ROOT else spec.queue
        check_exists(queues, queue)
        if (rule := not_a_member(queues, queue, tenant, groups)) is not None:
            raise InvalidInput("queue", rule)
        check_priority(queues, queue, spec.priority)
    except InvalidInput as error:
        raise InvalidInput(f"spec.{error.field}", error.rule) from None
    return replace(spec, queue=queue)
