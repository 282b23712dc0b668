"""A small measured profile: steps take 0.1 s per 10 samples of a worker and 0.1 s of synchronisation per node."""

from pathlib import Path

PROGRESS = (100.0, 200.0)


def step_seconds(nodes: int, local_batch: int) -> tuple[float, float]:
    """Of a step, and of its synchronisation."""
    sync = 0.1 * nodes
    return local_batch / 100.0 + sync, sync


def write_profile(directory: Path, name: str = "toy") -> Path:
    """The directory of profiles, which holds one application."""
    application = directory / name
    application.mkdir(parents=True)
    sizes = (10, 20, 40)
    rows = [(int("4" * n + ("" if w % 4 == 0 else str(w % 4))), w) for w in (1, 2, 3, 4, 8) for n in [w // 4]]
    placements = [(placement, b, *step_seconds(len(str(placement)), b)) for placement, _ in rows for b in sizes]
    _write(application / "placements.csv", "placement,local_bsz,step_time,sync_time", placements)
    scalability = [(n, w, b, *step_seconds(n, b)) for n in (4, 8, 16) for w in (n, 4 * n) for b in sizes]
    _write(application / "scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time", scalability)
    for batch in (20, 80, 160):
        # the gradient's noise falls: larger batches bring little at first and all in the second epoch
        rows_of_run = [(PROGRESS[0], 10, 0.5, 1.0, 0.0), (PROGRESS[1], 20, 0.6, 0.0, 1.0)]
        _write(application / f"validation-{batch}.csv", "progress,iteration,metric,grad_sqr,grad_var", rows_of_run)
    return directory


def _write(path: Path, header: str, rows: list[tuple[float, ...]]) -> None:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
