"""Exported environments: only jobs that run on their submitter's machine may have them."""

import socket
from dataclasses import replace

from scheduler.config import Settings
from scheduler.errors import InvalidInput
from scheduler.http.explain.words import named
from scheduler.model.export import Export, in_default_export
from scheduler.model.job import JobSpec


def keep_export(spec: JobSpec, settings: Settings, prefix: str = "") -> tuple[JobSpec, list[str]]:
    """The job with the exported environment that its workers may have, and warnings about the parts left out.

    Programs and directories of one machine mean nothing on another, or in the image of a pod, so none are stored
    there. Raises `InvalidInput` for a relative directory in that case; `prefix`: the job's place in the body.
    """
    export = spec.export
    if export is None:
        return spec, []
    relative = spec.workdir if spec.workdir is not None and not spec.workdir.startswith("/") else None
    if settings.cluster == "kubernetes":
        _check_absolute(relative, "in the image of its pods", prefix)
        return replace(spec, export=None), _named(export)
    here = socket.gethostname()
    if export.host not in (None, here):
        _check_absolute(relative, f"on {here}, where the job runs", prefix)
        told = f"submitted on {export.host}, but runs on {here}: directory and environment were not passed on"
        return replace(spec, export=None), [f"{told}; use --workdir and --env"]
    return (spec if relative is None else replace(spec, workdir=None)), []


def _check_absolute(relative: str | None, where: str, prefix: str) -> None:
    if relative is not None:
        raise InvalidInput(f"{prefix}workdir", f"must be an absolute path {where}, not {relative[:100]!r}")


def _named(export: Export) -> list[str]:
    """A warning about left out variables that the submitter chose; those of the default need none."""
    chosen = [name for name, _ in export.env if not in_default_export(name)]
    if not chosen:
        return []
    return [f"the environment of the submitter is not passed on to pods ({named(chosen)}): use --env"]
