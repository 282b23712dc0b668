"""The manifests, as a real API server takes them, and what they allow."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes import client

from scheduler.cli.client.connection import find_daemon
from scheduler.config import HttpSettings, KubernetesSettings, load_settings
from scheduler.daemon.trainingjobs.crd import definition
from scheduler.daemon.trainingjobs.resource import job_spec, training_job
from scheduler.model.field_rules import Leave
from scheduler.model.pod_fields import POD_TEMPLATE
from tests.clusters.control_plane import ControlPlane
from tests.daemon import running_daemon
from tests.eventually import eventually

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "sched-system"
#: Of the workers.
JOBS = "sched-jobs"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:sched"
WORKER = f"system:serviceaccount:{JOBS}:sched-worker"
#: Kinds of extras that belong to no namespace.
CLUSTER_WIDE = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())


class Kubectl:
    """The command, as the administrator of a control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._kubeconfig = plane.kubeconfig

    def __call__(self, *arguments: str, check: bool = True) -> str:
        command = ["kubectl", f"--kubeconfig={self._kubeconfig}", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def may(self, account: str, verb: str, what: str, namespace: str = JOBS) -> bool:
        kind, _, subresource = what.partition("/")
        asked = ("auth", "can-i", verb, kind, f"--as={account}", f"--namespace={namespace}")
        return self(*asked, f"--subresource={subresource}", check=False) == "yes"


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    return Kubectl(plane)


@pytest.fixture(scope="module")
def installed(kubectl: Kubectl) -> Kubectl:
    kubectl("apply", "-k", str(MANIFESTS / "overlays" / "postgres"))
    kubectl("wait", "--for=condition=Established", "crd/trainingjobs.elastic-gpu-scheduler.io", "--timeout=120s")
    return kubectl


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_is_accepted(kubectl: Kubectl, overlay: str) -> None:
    kubectl("apply", "-k", str(MANIFESTS / "overlays" / overlay))
    assert "unchanged" in kubectl("apply", "-k", str(MANIFESTS / "overlays" / overlay))


@pytest.mark.parametrize("extra", sorted(path.name for path in (MANIFESTS / "extras").iterdir()))
def test_each_extra_is_built(kubectl: Kubectl, extra: str) -> None:
    built = list(yaml.safe_load_all(kubectl("kustomize", str(MANIFESTS / "extras" / extra))))
    assert all(each["kind"] in CLUSTER_WIDE or each["metadata"]["namespace"] == NAMESPACE for each in built)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("list", "nodes"),
        ("watch", "nodes"),
        ("create", "pods"),
        ("get", "pods"),
        ("delete", "pods"),
        ("get", "pods/log"),
        ("get", "configmaps"),
        ("create", "configmaps"),
        ("get", "services"),
        ("create", "services"),
        ("create", "networkpolicies.networking.k8s.io"),
        ("delete", "networkpolicies.networking.k8s.io"),
        ("list", "events"),
        ("list", "trainingjobs.elastic-gpu-scheduler.io"),
        ("watch", "trainingjobs.elastic-gpu-scheduler.io"),
        ("patch", "trainingjobs.elastic-gpu-scheduler.io"),
        ("patch", "trainingjobs.elastic-gpu-scheduler.io/status"),
    ],
)
def test_the_scheduler_may_do_what_it_does(installed: Kubectl, verb: str, what: str) -> None:
    # The API server judges by what it has heard of roles, a moment later.
    eventually(lambda: installed.may(SCHEDULER, verb, what), "it may not")


def test_the_scheduler_may_ask_what_pods_of_workers_take_and_nothing_of_others(
    installed: Kubectl, plane: ControlPlane
) -> None:
    """Asked in this way, since kubectl does not know what no metrics server offers."""
    reviews = client.AuthorizationV1Api(plane.core.api_client)

    def may(namespace: str) -> bool:
        asked = {"namespace": namespace, "verb": "list", "group": "metrics.k8s.io", "resource": "pods"}
        body = {"spec": {"user": SCHEDULER, "resourceAttributes": asked}}
        return bool(reviews.create_subject_access_review(body).status.allowed)

    eventually(lambda: may(JOBS), "it may not")
    assert not may(NAMESPACE)


@pytest.mark.parametrize(
    ("verb", "what", "namespace"),
    [
        ("get", "secrets", NAMESPACE),
        ("list", "secrets", JOBS),
        ("get", "secrets", JOBS),
        ("create", "secrets", JOBS),
        ("create", "pods", NAMESPACE),
        ("create", "pods", "default"),
        ("delete", "pods", "default"),
        ("get", "pods/log", "default"),
        ("create", "pods/exec", JOBS),
        ("update", "pods", JOBS),
        ("patch", "pods", JOBS),
        ("create", "serviceaccounts", JOBS),
        ("create", "serviceaccounts/token", JOBS),
        ("patch", "networkpolicies.networking.k8s.io", JOBS),
        ("patch", "nodes", NAMESPACE),
        ("delete", "nodes", NAMESPACE),
        ("get", "configmaps", NAMESPACE),
        ("delete", "configmaps", JOBS),
        ("delete", "services", JOBS),
        ("patch", "services", JOBS),
        ("delete", "trainingjobs.elastic-gpu-scheduler.io", JOBS),
        ("create", "trainingjobs.elastic-gpu-scheduler.io", JOBS),
        ("list", "trainingjobs.elastic-gpu-scheduler.io", "default"),
        ("create", "rolebindings", JOBS),
        ("impersonate", "users", JOBS),
        ("*", "*", NAMESPACE),
        ("*", "*", JOBS),
    ],
)
def test_the_scheduler_may_do_nothing_else(installed: Kubectl, verb: str, what: str, namespace: str) -> None:
    assert not installed.may(SCHEDULER, verb, what, namespace)


@pytest.mark.parametrize(("verb", "what"), [("list", "pods"), ("get", "configmaps"), ("list", "nodes")])
def test_workers_may_do_nothing(installed: Kubectl, verb: str, what: str) -> None:
    assert not installed.may(WORKER, verb, what)


def test_the_scheduler_sees_pods_of_others_without_reading_one(installed: Kubectl) -> None:
    eventually(lambda: installed.may(SCHEDULER, "list", "pods", "default"), "it may not")
    assert not installed.may(SCHEDULER, "get", "pods", "default")


def test_the_custom_resource_is_what_the_code_makes() -> None:
    written = yaml.safe_load((MANIFESTS / "base" / "crd.yaml").read_text())
    assert written == definition(), "python -m scheduler.daemon.trainingjobs makes it"


def test_the_settings_are_settings(tmp_path: Path) -> None:
    config_map = yaml.safe_load((MANIFESTS / "base" / "config.yaml").read_text())
    path = tmp_path / "sched.toml"
    path.write_text(config_map["data"]["sched.toml"])
    settings = load_settings(path)
    assert settings.cluster == "kubernetes"
    assert settings.kubernetes.namespace == JOBS
    assert not settings.kubernetes.trust_templates


def test_sched_in_the_daemons_pod_finds_the_socket_and_the_address_that_the_daemon_writes(tmp_path: Path) -> None:
    pod = yaml.safe_load((MANIFESTS / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert variables["SCHED_STATE_DIR"] == mounts["state"]
    # What the file says would be the daemon's alone.
    file = yaml.safe_load((MANIFESTS / "base" / "config.yaml").read_text())["data"]["sched.toml"]
    assert "state_dir" not in tomllib.loads(file)

    with running_daemon(tmp_path, http={"host": "0.0.0.0", "token": "of-the-secret-sched"}) as daemon:
        found = find_daemon(None, None, daemon.state_dir)
        assert (found.url, found.socket) == (daemon.url, daemon.state_dir / "sched.sock")
        assert (daemon.state_dir / "token").read_text() == "of-the-secret-sched\n"


def test_the_image_is_made_of_what_is_let_through_and_of_nothing_else() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (MANIFESTS / "Dockerfile").read_text(), re.MULTILINE)
    ignored = (MANIFESTS.parent / ".dockerignore").read_text().splitlines()
    let_through = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert let_through == {source for line in copied for source in line.split()}
    assert all((MANIFESTS.parent / name).exists() for name in let_through)


def test_every_namespace_of_workers_enforces_pod_security() -> None:
    namespace = yaml.safe_load((MANIFESTS / "workers" / "namespace.yaml").read_text())
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] in ("baseline", "restricted")


def test_prometheus_sends_the_token_that_opens_metrics_alone() -> None:
    monitor = yaml.safe_load((MANIFESTS / "extras" / "service-monitor" / "service-monitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["endpoints"]
    deployment = yaml.safe_load((MANIFESTS / "base" / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    sources = {each["name"]: each.get("valueFrom", {}).get("secretKeyRef") for each in container["env"]}
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"].items() <= sources["SCHED_HTTP__METRICS_TOKEN"].items()
    assert sources["SCHED_HTTP__METRICS_TOKEN"]["key"] != sources["SCHED_HTTP__TOKEN"]["key"]


@pytest.mark.parametrize("extra", ["disruption-budget", "disruption-budget-v1beta1"])
def test_a_disruption_budget_lets_nodes_be_drained_also_where_there_is_one_replica(extra: str) -> None:
    (budget,) = yaml.safe_load_all((MANIFESTS / "extras" / extra / "disruption-budget.yaml").read_text())
    deployment = yaml.safe_load((MANIFESTS / "base" / "deployment.yaml").read_text())["spec"]
    single = yaml.safe_load((MANIFESTS / "overlays" / "sqlite-single" / "single.yaml").read_text())["spec"]
    spec = budget["spec"]
    assert spec["selector"] == deployment["selector"]
    # What the API server works out: https://kubernetes.io/docs/tasks/run-application/configure-pdb/
    may_go = {count: spec.get("maxUnavailable", count - spec.get("minAvailable", 0)) for count in (1, 2)}
    assert (single["replicas"], deployment["replicas"]) == (1, 2)
    assert may_go == {1: 1, 2: 1}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_variables_that_name_others_come_after_them(overlay: str) -> None:
    """Kubernetes leaves a name as it is that stands before its variable."""
    for container in daemons_pod(overlay)["containers"]:
        known: set[str] = set()
        for each in container["env"]:
            assert set(re.findall(r"\$\((\w+)\)", each.get("value", ""))) <= known
            known.add(each["name"])


def built(folder: Path) -> list[Any]:
    """What a kustomization makes; this needs no API server."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    done = subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def daemons_pod(overlay: str) -> dict[str, Any]:
    deployments = (each for each in built(MANIFESTS / "overlays" / overlay) if each["kind"] == "Deployment")
    found = [each for each in deployments if each["metadata"]["name"] == "sched"]
    pod: dict[str, Any] = found[0]["spec"]["template"]["spec"]
    return pod


def test_the_component_of_tls_names_files_of_its_secret_and_one_address_for_all() -> None:
    pod = daemons_pod("postgres-tls")
    (container,) = pod["containers"]
    variables = {each["name"].removeprefix("SCHED_HTTP__").lower(): each.get("value") for each in container["env"]}
    given = {name: variables[name] for name in HttpSettings.model_fields if variables.get(name) is not None}
    settings = HttpSettings(**given)
    (volume,) = (each for each in pod["volumes"] if each["name"] == "tls")
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "tls")
    files = {settings.tls_certificate: "tls.crt", settings.tls_key: "tls.key", settings.tls_ca: "ca.crt"}
    assert all(path == Path(mount["mountPath"], name) for path, name in files.items())
    assert not volume["secret"]["defaultMode"] & 0o007, "the daemon refuses a key that all may read"
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}
    assert str(variables["advertised_url"]).startswith("https://")
    (monitor,) = built(MANIFESTS / "extras" / "service-monitor-tls")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == urlsplit(settings.workers_url or "").hostname
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": volume["secret"]["secretName"], "key": "ca.crt"}
    assert endpoint["authorization"]["credentials"]["key"] == "metrics-token"


def test_the_admission_policy_asks_for_what_the_settings_give_to_workers() -> None:
    text = (MANIFESTS / "extras" / "admission-policy" / "admission-policy.yaml").read_text()
    given = yaml.safe_load((MANIFESTS / "base" / "config.yaml").read_text())["data"]["sched.toml"]
    kubernetes = tomllib.loads(given)["kubernetes"]
    assert f"serviceAccountName == '{kubernetes['service_account']}'" in text
    assert f"priorityClassName == '{kubernetes['priority_class']}'" in text
    assert f"'{SCHEDULER}'" in text
    namespace = yaml.safe_load((MANIFESTS / "workers" / "namespace.yaml").read_text())
    policies = [each for each in yaml.safe_load_all(text) if each["kind"] == "ValidatingAdmissionPolicy"]
    for policy in policies:
        selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
        assert selector.items() <= namespace["metadata"]["labels"].items()


def test_the_admission_policy_lets_in_the_volumes_that_templates_may_have_and_no_others() -> None:
    def allowed(volume: dict[str, Any]) -> bool:
        return POD_TEMPLATE.broken({"spec": {"volumes": [volume]}}, "pod_template", Leave()) is None

    text = (MANIFESTS / "extras" / "admission-policy" / "admission-policy.yaml").read_text()
    kinds = client.V1Volume.attribute_map.values()
    assert set(re.findall(r"(?<!!)has\(volume\.(\w+)\)", text)) == {kind for kind in kinds if allowed({kind: {}})}
    sources = client.V1VolumeProjection.attribute_map.values()
    assert set(re.findall(r"(?<!!)has\(source\.(\w+)\)", text)) == {
        source for source in sources if allowed({"projected": {"sources": [{source: {}}]}})
    }


def test_one_more_namespace_of_workers_is_a_kustomization_of_its_own(kubectl: Kubectl, tmp_path: Path) -> None:
    folder = tmp_path / "team-a"
    folder.mkdir()
    relative = os.path.relpath(MANIFESTS / "workers", folder.resolve())
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"namespace": "team-a", "resources": [relative]}))
    built = list(yaml.safe_load_all(kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))))
    by_kind = {each["kind"]: each for each in built}
    assert by_kind["Namespace"]["metadata"]["name"] == "team-a"
    assert {each["metadata"].get("namespace", "team-a") for each in built} == {"team-a"}
    assert by_kind["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": "sched", "namespace": NAMESPACE}]


def test_the_example_of_a_training_job_is_accepted(installed: Kubectl) -> None:
    example = MANIFESTS.parent / "examples" / "trainingjob.yaml"
    installed("apply", "-f", str(example))
    item = json.loads(installed("get", "trainingjob", "hello", f"--namespace={JOBS}", "-o", "json"))
    spec = job_spec(training_job(item), KubernetesSettings(namespace=JOBS))
    assert (spec.name, spec.min_workers, spec.max_workers) == ("hello", 1, 4)
