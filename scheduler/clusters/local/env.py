"""Variables that a local worker inherits from the daemon: those that programs need, none of the scheduler's own."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from scheduler.model.export import in_default_export, is_schedulers, is_secret

_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_DEVICE_ORDER",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "HF_DATASETS_CACHE",
    }
)
_PREFIXES = ("LC_", "PYTHON", "CONDA_", "NCCL_", "GLOO_", "OMP_", "MKL_", "TORCH_")

#: Beside what is exported by default: an interpreter's home goes with the PATH that finds it.
_PYTHON_HOME = "PYTHONHOME"


def inherited_env(environ: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """The part of `environ` that workers, and their supervisor, may have; `passed` are patterns of further names."""
    env = {name: value for name, value in environ.items() if _is_inherited(name, value) or _is_passed(name, passed)}
    # A log is followed while it is written, and a killed worker's last lines matter most.
    env.setdefault("PYTHONUNBUFFERED", "1")
    return env


def _is_inherited(name: str, value: str) -> bool:
    return (name in _NAMES or name.startswith(_PREFIXES)) and not is_secret(name, value)


def _is_passed(name: str, patterns: Sequence[str]) -> bool:
    """Whether the operator's patterns match it. The scheduler's own variables are secrets and never match."""
    return not is_schedulers(name) and any(fnmatchcase(name, pattern) for pattern in patterns)


class InheritedEnv:
    """Variables that workers inherit from the daemon; their jobs' own variables win."""

    def __init__(self, environ: Mapping[str, str], passed: Sequence[str] = ()) -> None:
        """`passed`: patterns of further names that workers inherit."""
        inherited = inherited_env(environ, passed)
        self._where_programs_are = {name: value for name, value in inherited.items() if _says_where_programs_are(name)}
        #: Variables of all workers.
        self.common = {name: value for name, value in inherited.items() if name not in self._where_programs_are}

    def of_worker(self, exported: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Variables of one worker beside `common`: its own, then those of its submitter, then the daemon's.

        With a submitter's PATH, the daemon's variables for the places of programs and libraries are left out: an
        interpreter of one environment must not find the modules of another.
        """
        below = {} if "PATH" in exported else self._where_programs_are
        return {**below, **exported, **own}


def _says_where_programs_are(name: str) -> bool:
    return in_default_export(name) or name == _PYTHON_HOME
