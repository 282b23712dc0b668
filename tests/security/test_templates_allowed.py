"""Pod templates of users who are not trusted with the nodes: what gets through, and what does not.

The attacks are tried in every part of a template where they could stand, and beside what is harmless.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.config import KubernetesSettings, Settings
from scheduler.errors import InvalidInput
from scheduler.http.admission.pods import check_pods
from scheduler.http.schemas.requests import JobRequest, check_request
from scheduler.model.field_rules import Leave
from scheduler.model.ids import NodeName
from scheduler.model.pod_permissions import broken_pod_rule, broken_template
from scheduler.model.pod_template import broken_template_rule, canonical_template
from tests.clusters.desk import start_of

STRICT = KubernetesSettings(image="default:1")
TRUSTING = KubernetesSettings(image="default:1", trust_templates=True)
NOBODY = Leave()
OWNER = {"metadata": {"name": "sched-workers", "uid": "u"}}

#: Of the whole pod.
PODS: list[tuple[str, dict[str, Any]]] = [
    ("hostNetwork", {"hostNetwork": True}),
    ("hostPID", {"hostPID": True}),
    ("hostIPC", {"hostIPC": True}),
    ("serviceAccountName", {"serviceAccountName": "sched"}),
    ("serviceAccount", {"serviceAccount": "sched"}),
    ("automountServiceAccountToken", {"automountServiceAccountToken": True}),
    ("nodeName", {"nodeName": "control-plane"}),
    ("schedulerName", {"schedulerName": "mine"}),
    ("schedulingGates", {"schedulingGates": [{"name": "never"}]}),
    ("priorityClassName", {"priorityClassName": "system-node-critical"}),
    ("priority", {"priority": 2000000000}),
    ("preemptionPolicy", {"preemptionPolicy": "PreemptLowerPriority"}),
    ("ephemeralContainers", {"ephemeralContainers": [{"name": "debug", "image": "x"}]}),
    ("resourceClaims", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "all"}]}),
    ("resources.limits.nvidia.com/gpu", {"resources": {"limits": {"nvidia.com/gpu": "8"}}}),
    ("affinity.podAntiAffinity", {"affinity": {"podAntiAffinity": {}}}),
    ("tolerations.0", {"tolerations": [{"operator": "Exists"}]}),
    ("tolerations.0.key", {"tolerations": [{"key": "node-role.kubernetes.io/control-plane"}]}),
    ("tolerations.0.key", {"tolerations": [{"key": "", "operator": "Exists"}]}),
    ("securityContext.seccompProfile.type", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
    ("securityContext.appArmorProfile.type", {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
    ("securityContext.seLinuxOptions", {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}),
    ("securityContext.windowsOptions", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
    ("securityContext.sysctls.0.name", {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
]
#: Of any container.
CONTAINERS: list[tuple[str, dict[str, Any]]] = [
    ("securityContext.privileged", {"securityContext": {"privileged": True}}),
    ("securityContext.allowPrivilegeEscalation", {"securityContext": {"allowPrivilegeEscalation": True}}),
    ("securityContext.procMount", {"securityContext": {"procMount": "Unmasked"}}),
    ("securityContext.capabilities.add.0", {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    ("securityContext.capabilities.add.1", {"securityContext": {"capabilities": {"add": ["CHOWN", "ALL"]}}}),
    ("securityContext.seccompProfile.type", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
    ("securityContext.windowsOptions", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
    ("ports.0.hostPort", {"ports": [{"containerPort": 22, "hostPort": 22}]}),
    ("ports.0.hostIP", {"ports": [{"containerPort": 22, "hostIP": "0.0.0.0"}]}),
    ("resources.limits.nvidia.com/gpu", {"resources": {"limits": {"nvidia.com/gpu": "8"}}}),
    ("resources.requests.amd.com/gpu", {"resources": {"requests": {"amd.com/gpu": 1}}}),
    ("resources.limits.nvidia.com/mig-1g.5gb", {"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}),
    ("resources.limits.devices.kubevirt.io/kvm", {"resources": {"limits": {"devices.kubevirt.io/kvm": 1}}}),
    ("resources.claims", {"resources": {"claims": [{"name": "gpu"}]}}),
    ("env.0.name", {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
    ("env.1.name", {"env": [{"name": "A", "value": "b"}, {"name": "AMD_VISIBLE_DEVICES", "value": "all"}]}),
    ("env.0.name", {"env": [{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}]}),
    ("envFrom", {"envFrom": [{"configMapRef": {"name": "with-nvidia-visible-devices"}}]}),
    (
        "volumeMounts.0.mountPath",
        {"volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]},
    ),
    (
        "volumeMounts.0.mountPath",
        {"volumeMounts": [{"name": "v", "mountPath": "/run/./x/../nvidia-container-devices/0"}]},
    ),
    ("volumeMounts.0.mountPropagation", {"volumeMounts": [{"name": "v", "mountPropagation": "Bidirectional"}]}),
    ("livenessProbe.httpGet.host", {"livenessProbe": {"httpGet": {"host": "169.254.169.254", "port": 80}}}),
    ("readinessProbe.tcpSocket.host", {"readinessProbe": {"tcpSocket": {"host": "127.0.0.1", "port": 10250}}}),
    ("lifecycle.postStart.httpGet.host", {"lifecycle": {"postStart": {"httpGet": {"host": "127.0.0.1", "port": 1}}}}),
]
VOLUMES: list[tuple[str, dict[str, Any]]] = [
    ("hostPath", {"hostPath": {"path": "/"}}),
    ("nfs", {"nfs": {"server": "10.0.0.1", "path": "/home"}}),
    ("csi", {"csi": {"driver": "hostpath.csi.k8s.io"}}),
    ("iscsi", {"iscsi": {"targetPortal": "10.0.0.1"}}),
    ("gitRepo", {"gitRepo": {"repository": "x"}}),
    ("flexVolume", {"flexVolume": {"driver": "x"}}),
    ("projected.sources.0.serviceAccountToken", {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
]
METADATA: list[tuple[str, dict[str, Any]]] = [
    ("labels.app.kubernetes.io/name", {"labels": {"app.kubernetes.io/name": "elastic-gpu-scheduler"}}),
    ("labels.app.kubernetes.io/component", {"labels": {"app.kubernetes.io/component": "daemon"}}),
    ("labels.elastic-gpu-scheduler/job", {"labels": {"elastic-gpu-scheduler/job": "1"}}),
    ("labels.elastic-gpu-scheduler/instance", {"labels": {"elastic-gpu-scheduler/instance": "other"}}),
    ("annotations.elastic-gpu-scheduler/cpus", {"annotations": {"elastic-gpu-scheduler/cpus": "inf"}}),
    ("annotations.cdi.k8s.io/gpus", {"annotations": {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}}),
    ("annotations.io.kubernetes.cri-o.Devices", {"annotations": {"io.kubernetes.cri-o.Devices": "/dev/sda"}}),
    ("annotations.iam.amazonaws.com/role", {"annotations": {"iam.amazonaws.com/role": "admin"}}),
    ("finalizers", {"finalizers": ["mine/forever"]}),
    ("ownerReferences", {"ownerReferences": []}),
    ("name", {"name": "sched-0"}),
]
NAMED = {"name": "worker", "image": "train:1"}


def attacks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Path, and a template with an attack there."""
    for path, spec in PODS:
        yield f"spec.{path}", {"spec": spec}
    for path, part in CONTAINERS:
        yield f"spec.containers.0.{path}", {"spec": {"containers": [{**NAMED, **part}]}}
        yield f"spec.containers.1.{path}", {"spec": {"containers": [NAMED, {"name": "logs", "image": "l", **part}]}}
        yield f"spec.initContainers.0.{path}", {"spec": {"initContainers": [{"name": "i", "image": "l", **part}]}}
    for path, part in VOLUMES:
        yield f"spec.volumes.1.{path}", {"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "v", **part}]}}
    for path, metadata in METADATA:
        yield f"metadata.{path}", {"metadata": metadata}


ATTACKS = list(attacks())


@pytest.mark.parametrize(("path", "template"), ATTACKS, ids=[path for path, _ in ATTACKS])
def test_an_attack_is_refused_where_the_job_is_submitted_and_where_its_pod_is_made(
    path: str, template: dict[str, Any]
) -> None:
    broken = broken_template_rule(template, NOBODY)
    assert broken is not None
    assert broken[0] == f"pod_template.{path}"
    start = replace(start_of("7-1", NodeName("a"), (0,), ("train",)), pod_template=canonical_template(template))
    with pytest.raises(InvalidInput) as caught:
        pod_manifest(start, STRICT, OWNER, lambda namespace, name: "")
    assert caught.value.field == f"pod_template.{path}"


HARMLESS: dict[str, Any] = {
    "metadata": {"labels": {"team": "vision", "run-2": "b"}, "annotations": {"note": "any text: here"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "runtimeClassName": "nvidia",
        "imagePullSecrets": [{"name": "registry"}],
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1000, "supplementalGroups": [5]},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 30}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"name": "code", "configMap": {"name": "code", "items": [{"key": "a.py", "path": "a.py"}]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "keys"}}, {"configMap": {"name": "code"}}]}},
        ],
        "initContainers": [{"name": "fetch", "image": "curl:1", "command": ["curl"], "args": ["-O"]}],
        "containers": [
            {
                **NAMED,
                "imagePullPolicy": "IfNotPresent",
                "env": [
                    {"name": "OMP_NUM_THREADS", "value": "4"},
                    {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                ],
                "resources": {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"hugepages-2Mi": "64Mi"}},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "securityContext": {
                    "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
            },
            {"name": "logs", "image": "logs:1", "ports": [{"containerPort": 9000}], "command": ["ship"]},
        ],
    },
}


def test_what_a_training_needs_gets_through_and_an_attack_hidden_among_it_does_not() -> None:
    assert broken_template_rule(HARMLESS, NOBODY) is None
    for path, template in ATTACKS:
        mixed = json.loads(json.dumps(HARMLESS))
        for part in ("metadata", "spec"):
            mixed[part] = {**mixed[part], **template.get(part, {})}
        broken = broken_template_rule(mixed, NOBODY)
        assert broken is not None, path
        assert broken[0] == f"pod_template.{path}"


def test_a_site_that_trusts_its_users_takes_all_that_the_scheduler_does_not_decide_itself() -> None:
    ours = ("nodeName", "ephemeralContainers", "finalizers", "ownerReferences", "metadata.name")
    for path, template in ATTACKS:
        refused = broken_template_rule(template, Leave(trusted=True)) is not None
        assert refused == path.endswith(ours), path


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"containers": [{**NAMED, "imagePullpolicy": "Never"}]},
            "containers.0.imagePullpolicy: unknown field: did you mean imagePullPolicy?",
        ),
        ({"hostnetwork": True}, "hostnetwork: unknown field: did you mean hostNetwork?"),
        ({"contaners": []}, "contaners: unknown field: did you mean containers?"),
        ({"hostNetwork": "true"}, "hostNetwork: must be true or false"),
        ({"containers": [{"name": 1}]}, "containers.0.name: must be a string"),
        ({"containers": [{"tty": 1}]}, "containers.0.tty: must be true or false"),
        ({"containers": [{"ports": [{"containerPort": "80"}]}]}, "containers.0.ports.0.containerPort: must be an int"),
        ({"containers": [{"resources": {"limits": {"cpu": []}}}]}, "containers.0.resources.limits.cpu: must be a quan"),
        ({"volumes": [{"name": "a", "quantum": {}}]}, "volumes.0.quantum: unknown field"),
        ({"containers": None}, "containers: must be a list"),
    ],
)
def test_a_typo_is_told_by_its_path(spec: dict[str, Any], message: str) -> None:
    broken = broken_template(canonical_template({"spec": spec}), STRICT)
    assert broken is not None
    assert f"{broken[0]}: {broken[1]}".startswith(f"pod_template.spec.{message}")


def test_a_field_that_is_newer_than_the_rules_is_left_to_the_api_where_users_are_trusted() -> None:
    newer = canonical_template({"spec": {"quantumEntanglement": True}})
    assert broken_template(newer, TRUSTING) is None
    assert broken_template(newer, STRICT) is not None


def test_a_resource_that_is_not_counted_may_be_allowed_by_name() -> None:
    container = {**NAMED, "resources": {"limits": {"rdma/hca": 1}}}
    template = canonical_template({"spec": {"containers": [container]}})
    assert broken_template(template, STRICT) is not None
    assert broken_template(template, KubernetesSettings(template_resources=("rdma/hca",))) is None


@pytest.mark.parametrize("field", ["env", "fixed.env"])
def test_a_jobs_own_variables_show_it_no_device_that_it_did_not_ask_for(field: str) -> None:
    env = {"A": "1", "NVIDIA_VISIBLE_DEVICES": "all"}
    body = {"env": env} if field == "env" else {"fixed": {"replicas": 1, "env": env}}
    spec = check_request(JobRequest, {"command": ["train"], **body}).spec()
    why = "not allowed without kubernetes.trust_templates: slots say which devices a worker sees"
    assert broken_pod_rule(spec, STRICT) == (f"{field}.NVIDIA_VISIBLE_DEVICES", why)
    assert broken_pod_rule(spec, TRUSTING) is None
    start = replace(start_of("7-1", NodeName("a"), (0,), ("train",)), env=tuple(env.items()))
    with pytest.raises(InvalidInput):
        pod_manifest(start, STRICT, OWNER, lambda namespace, name: "")


@pytest.mark.parametrize("place", ["", "fixed."])
def test_templates_of_workers_and_of_the_fixed_group_are_judged_with_the_job(place: str) -> None:
    attack = {"pod_template": {"spec": {"hostNetwork": True}}}
    body = attack if not place else {"fixed": {"replicas": 1, **attack}}
    spec = check_request(JobRequest, {"command": ["train"], **body}).spec()
    why = "not allowed without kubernetes.trust_templates"
    assert broken_pod_rule(spec, STRICT) == (f"{place}pod_template.spec.hostNetwork", why)
    assert broken_pod_rule(spec, TRUSTING) is None


def test_no_container_beside_the_worker_sees_a_gpu_by_what_its_image_says() -> None:
    template = {"spec": {"containers": [NAMED, {"name": "b"}], "initContainers": [{"name": "c", "env": []}]}}
    start = replace(start_of("7-1", NodeName("a"), (0,), ("train",)), pod_template=canonical_template(template))
    spec = pod_manifest(start, STRICT, OWNER, lambda namespace, name: "")["spec"]
    for container in (spec["containers"][1], *spec["initContainers"]):
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
    assert spec["automountServiceAccountToken"] is False


def test_jobs_run_in_no_other_namespaces_than_those_of_workers() -> None:
    settings = KubernetesSettings(namespace="jobs", namespaces=("team-a",))
    for namespace, allowed in (("jobs", True), ("team-a", True), ("kube-system", False)):
        broken = broken_template(canonical_template({"metadata": {"namespace": namespace}}), settings)
        why = f"{namespace} is no namespace of workers: they run in jobs, team-a"
        assert broken == (None if allowed else ("pod_template.metadata.namespace", why))


@pytest.mark.parametrize("place", ["", "fixed."])
def test_a_job_over_http_runs_in_no_namespace_but_the_common_one(place: str) -> None:
    def check(namespace: str, trust: bool) -> None:
        template = {"pod_template": {"metadata": {"namespace": namespace}}}
        body = template if not place else {"fixed": {"replicas": 1, **template}}
        settings = KubernetesSettings(namespace="jobs", namespaces=("team-b",), trust_templates=trust)
        spec = check_request(JobRequest, {"command": ["train"], **body}).spec()
        check_pods(Settings(cluster="kubernetes", kubernetes=settings), {"jobs.1.": spec})

    check("jobs", False)
    check("team-b", True)
    with pytest.raises(InvalidInput, match="must be jobs: only TrainingJobs run in other namespaces") as caught:
        check("team-b", False)
    assert caught.value.field == f"jobs.1.{place}pod_template.metadata.namespace"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    ["containers", "volumes", "securityContext", "affinity", "tolerations", "initContainers", "env"]
)
INNER = st.sampled_from(
    ["name", "env", "ports", "resources", "securityContext", "hostPath", "privileged", "volumeMounts"]
)
PARTS = st.dictionaries(FIELDS, ANY | st.lists(st.dictionaries(INNER, ANY, max_size=3), max_size=3), max_size=4)


@given(st.fixed_dictionaries({}, optional={"metadata": ANY, "spec": ANY | PARTS}))
def test_whatever_a_template_holds_is_judged_and_what_passes_makes_a_pod_or_a_clear_refusal(template: Any) -> None:
    if broken_template_rule(template, NOBODY) is not None:
        return
    start = replace(start_of("7-1", NodeName("a"), (0,), ("train",)), pod_template=canonical_template(template))
    try:
        spec = pod_manifest(start, STRICT, OWNER, lambda namespace, name: "")["spec"]
    except InvalidInput:
        return
    assert not spec.get("hostNetwork")
    assert all("hostPath" not in volume for volume in spec.get("volumes", ()))


def test_a_template_that_is_nested_without_end_is_refused_and_costs_nothing() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": [deep]}
    broken = broken_template_rule({"spec": {"affinity": {"podAffinity": deep}}}, NOBODY)
    assert broken == ("pod_template", "must not be nested more than 32 levels deep")
