"""Where a worker's checkpoints go: to a directory of its job on a volume that the template mounts.

A directory of the container's own would be lost with the pod, and most programs may not even make it.
"""

from pathlib import PurePosixPath
from typing import Any

from scheduler.clusters.kubernetes.api.documents import Document

VARIABLE = "SCHED_CHECKPOINT_DIR"


def checkpoint_mount(mounts: list[Document], directory: str) -> Document | None:
    """The mount that `directory` is on, as one more mount of that directory alone; None: it is on no volume.

    The kubelet makes the directory of a `subPath`, with the rights of the volume's own.
    """
    target = PurePosixPath(directory)
    above = [each for each in mounts if target.is_relative_to(each["mountPath"]) and not each.get("readOnly")]
    if not above:
        return None
    mount: dict[str, Any] = max(above, key=lambda each: len(PurePosixPath(each["mountPath"]).parts))
    below = target.relative_to(mount["mountPath"])
    if "subPathExpr" in mount or not below.parts:
        return mount
    return {
        "name": mount["name"],
        "mountPath": directory,
        "subPath": str(PurePosixPath(mount.get("subPath", "")) / below),
    }
