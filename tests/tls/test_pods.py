"""On Kubernetes: workers' pods hold what vouches for the daemon, and their templates can name a file in its place."""

from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_daemon import site_of

pytestmark = pytest.mark.kubernetes


def test_pods_trust_the_authority_of_the_daemon_and_get_no_files_of_its_machine(
    plane: ControlPlane, tmp_path: Path, authority: Authority
) -> None:
    own = authority.issue(tmp_path / "own", name="worker")
    http = {**authority.issue(tmp_path / "pair").settings, "tls_ca": authority.file, "tls_client_ca": authority.file}
    http |= {"tls_client_certificate": own.certificate, "tls_client_key": own.key}
    template = {"spec": {"containers": [{"name": "worker", "env": [{"name": "SCHED_CA", "value": "/etc/ca/ca.crt"}]}]}}
    with site_of(plane, tmp_path, http=http) as site:
        job = site.submit(pod_template=template)
        pod = plane.core.read_namespaced_pod(site.pod_of(job, 1), site.namespace)
        (container,) = pod.spec.containers
        variables = {each.name: each.value for each in container.env}
        assert variables["SCHED_URL"] == site.daemon.url
        assert variables["SCHED_CA_DATA"] == authority.file.read_text().strip()
        assert variables["SCHED_CA"] == "/etc/ca/ca.crt"
        assert not {"SCHED_CERT", "SCHED_KEY"} & variables.keys()
