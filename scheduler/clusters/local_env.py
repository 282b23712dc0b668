"""What a local worker inherits of the daemon's environment: what programs need, nothing of the scheduler's own."""

from collections.abc import Mapping

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


def inherited_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of `environ` that workers get; a job's own variables go over it."""
    env = {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    # A log is followed while it is written, and a killed worker's last lines matter most.
    env.setdefault("PYTHONUNBUFFERED", "1")
    return env
