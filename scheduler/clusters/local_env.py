"""What a local worker inherits of the daemon's environment: what programs need, nothing of the scheduler's own."""

from collections.abc import Mapping

from scheduler.model.export import in_default_export

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
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    }
)
_PREFIXES = ("LC_", "PYTHON", "CONDA_", "NCCL_", "GLOO_", "OMP_", "MKL_", "TORCH_", "HF_")


#: Beside what is exported by default: an interpreter's home goes with the PATH that finds it.
_PYTHON_HOME = "PYTHONHOME"


def inherited_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of `environ` that workers, and their supervisor, may have."""
    env = {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    # A log is followed while it is written, and a killed worker's last lines matter most.
    env.setdefault("PYTHONUNBUFFERED", "1")
    return env


class InheritedEnv:
    """What workers have of the daemon's environment, below what their jobs say."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        inherited = inherited_env(environ)
        self._where_programs_are = {name: value for name, value in inherited.items() if _says_where_programs_are(name)}
        #: What all workers have.
        self.common = {name: value for name, value in inherited.items() if name not in self._where_programs_are}

    def of_worker(self, exported: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """What one worker has over `common`: its own variables, then those of its submitter, then the daemon's.

        With a submitter's PATH nothing of the daemon's is left that says where programs and libraries are: an
        interpreter of one environment must not find the modules of another.
        """
        below = {} if "PATH" in exported else self._where_programs_are
        return {**below, **exported, **own}


def _says_where_programs_are(name: str) -> bool:
    return in_default_export(name) or name == _PYTHON_HOME
