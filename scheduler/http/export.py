"""Which jobs may have what they would take of their submitters' environments: those that run where it was taken."""

import socket
from dataclasses import replace

from scheduler.config import Settings
from scheduler.model.export import Export, in_default_export
from scheduler.model.job import JobSpec

_NAMED_MAX = 5


def keep_export(spec: JobSpec, settings: Settings) -> tuple[JobSpec, list[str]]:
    """The job with what its workers may have of its submitter's environment, and warnings of what was left out.

    Programs and directories of one machine say nothing to another, or to the image of a pod, so that none of it is
    stored there.
    """
    export = spec.export
    if export is None:
        return spec, []
    if settings.cluster == "kubernetes":
        return replace(spec, export=None), _named(export)
    here = socket.gethostname()
    if export.host not in (None, here):
        told = f"submitted on {export.host}, but runs on {here}: directory and environment were not passed on"
        return replace(spec, export=None), [f"{told}; use --workdir and --env"]
    return spec, []


def _named(export: Export) -> list[str]:
    """A warning where variables were chosen: those of the default are told to nobody's surprise left out."""
    chosen = [name for name, _ in export.env if not in_default_export(name)]
    if not chosen:
        return []
    shown = ", ".join(chosen[:_NAMED_MAX]) + (", …" if len(chosen) > _NAMED_MAX else "")
    return [f"the environment of the submitter is not passed on to pods ({shown}): use --env"]
