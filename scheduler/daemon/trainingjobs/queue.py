"""The queue of a TrainingJob's job: the user that the object names decides, since its groups are not known."""

from dataclasses import replace

from scheduler.errors import InvalidInput
from scheduler.model.job import Job, JobSpec
from scheduler.model.queue import ROOT
from scheduler.model.queue_tree import Queues, check_exists, check_priority, default_queue, not_a_member


def into_queue(spec: JobSpec, job: Job | None, queues: Queues) -> JobSpec:
    """The job in the queue that it names, else in that of its user; a job that was submitted stays where it is.

    Raises `InvalidInput` with the field of the object.
    """
    try:
        if job is not None:
            check_priority(queues, job.spec.queue, spec.priority)
            return spec if spec.queue != ROOT else replace(spec, queue=job.spec.queue)
        queue = default_queue(queues, spec.user, ()) if spec.queue == ROOT else spec.queue
        check_exists(queues, queue)
        if (rule := not_a_member(queues, queue, spec.user, ())) is not None:
            raise InvalidInput("queue", rule)
        check_priority(queues, queue, spec.priority)
    except InvalidInput as error:
        raise InvalidInput(f"spec.{error.field}", error.rule) from None
    return replace(spec, queue=queue)
