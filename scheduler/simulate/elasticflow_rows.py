"""ElasticFlow's job tables: what ran on how many GPUs for how long."""

from pathlib import Path

from scheduler.config.numbers import Duration, Moment, Workers
from scheduler.simulate.job_rows import Name, refuse_repeated, resizable
from scheduler.simulate.speed import Speedup
from scheduler.simulate.table import Row, parse_csv
from scheduler.simulate.work import CurveWork
from scheduler.simulate.workload import Submission, Workload


class _Row(Row):
    job_id: Name
    #: On any clock, unix time as well.
    submission_time: Moment
    num_gpu: Workers
    duration: Duration


def elasticflow_workload(path: Path, text: str, speedup: Speedup) -> Workload:
    """ElasticFlow's table (job_id, submission_time, num_gpu, duration): work that takes `duration` at that size.

    Jobs may have fewer workers than they ran with, but not more, since nothing was measured there. Time begins with
    the first submission. Raises `UserError`.
    """
    rows = parse_csv(path, text, _Row)
    refuse_repeated(path, [(line, row.job_id) for line, row in rows], "job_id")
    first = min(row.submission_time for _, row in rows)
    return Workload.of(
        path.stem,
        [
            Submission(
                row.submission_time - first,
                resizable(row.job_id, row.num_gpu, row.num_gpu),
                CurveWork.lasting(row.duration, row.num_gpu, speedup),
            )
            for _, row in rows
        ],
    )
