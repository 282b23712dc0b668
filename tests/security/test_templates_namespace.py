"""Workers do not live beside the daemon's own secrets."""

from pathlib import Path

import pytest

from scheduler.clusters.kubernetes.api.credentials import own_namespace
from scheduler.config import KubernetesSettings
from scheduler.daemon.opening import check_namespaces
from scheduler.errors import ConfigError


def test_a_daemon_in_a_pod_knows_its_namespace_and_one_elsewhere_has_none(tmp_path: Path) -> None:
    path = tmp_path / "namespace"
    assert own_namespace(path) is None
    path.write_text("sched-system\n")
    assert own_namespace(path) == "sched-system"


def test_workers_in_the_namespace_of_the_daemon_are_refused_unless_users_are_trusted() -> None:
    for settings in (
        KubernetesSettings(namespace="sched-system"),
        KubernetesSettings(namespace="jobs", namespaces=("sched-system",)),
    ):
        with pytest.raises(ConfigError, match="sched-system is the namespace of this daemon"):
            check_namespaces(settings, "sched-system")
        check_namespaces(settings, None)
        check_namespaces(settings.model_copy(update={"trust_templates": True}), "sched-system")
