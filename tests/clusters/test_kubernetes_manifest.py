"""The pod of a worker: what a user's template gives, and what it cannot change."""

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from scheduler.clock import VirtualClock
from scheduler.clusters.kubernetes.api.connection import Pace
from scheduler.clusters.kubernetes.api.quantities import Amounts
from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.clusters.kubernetes.pods import PREFIX, WorkerPod, WorkerPods, requests_of
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import Role, StartWorker
from scheduler.errors import InvalidInput
from scheduler.model.export import Export
from scheduler.model.ids import NodeName
from tests.clusters.desk import start_of

SECRET = b"secret"
OWNER = {"metadata": {"name": "sched-workers", "uid": "u"}}
SETTINGS = KubernetesSettings(image="default:1")
START = start_of("7-1", NodeName("a"), (0, 3), ("python", "train.py"))


def made(template: Mapping[str, Any] | None = None, settings: KubernetesSettings = SETTINGS, **start: Any) -> Any:
    text = json.dumps(template) if template is not None else None
    return pod_manifest(replace(START, pod_template=text, **start), settings, OWNER, WorkerPods(settings, SECRET).seal)


def read(pod: Any, settings: KubernetesSettings = SETTINGS, secret: bytes = SECRET) -> WorkerPod | None:
    return WorkerPods(settings, secret).worker(pod)


def worker(pod: Any) -> Any:
    return next(each for each in pod["spec"]["containers"] if each.get("command"))


def test_without_a_template_the_image_of_the_settings_runs_the_command() -> None:
    pod = made(workdir="/work")
    (container,) = pod["spec"]["containers"]
    assert (container["name"], container["image"]) == ("worker", "default:1")
    assert (container["command"], container["workingDir"]) == (["python", "train.py"], "/work")
    assert container["env"] == [{"name": "GREETING", "value": "hello"}]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_a_pod_gets_nothing_of_its_submitters_environment() -> None:
    assert made(export=Export((("PATH", "/laptop/bin"), ("GREETING", "bye")), "/home/ann", "laptop")) == made()


def test_without_any_image_there_is_no_pod() -> None:
    with pytest.raises(InvalidInput, match=r"kubernetes\.image is not set"):
        made(settings=KubernetesSettings())


def test_a_template_gives_what_the_scheduler_does_not_decide() -> None:
    pod = made(
        {
            "metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}},
            "spec": {
                "shareProcessNamespace": True,
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [
                    {"name": "logs", "image": "logs:1"},
                    {"name": "worker", "image": "mine:1", "workingDir": "/src", "env": [{"name": "A", "value": "1"}]},
                ],
            },
        },
        workdir="/elsewhere",
    )
    container = worker(pod)
    assert (container["name"], container["image"], container["workingDir"]) == ("worker", "mine:1", "/src")
    assert container["env"][0] == {"name": "A", "value": "1"}
    unseen = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert pod["spec"]["containers"][0] == {"name": "logs", "image": "logs:1", "env": unseen}
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"
    assert pod["spec"]["shareProcessNamespace"] is True


def test_a_template_changes_nothing_that_the_scheduler_decides() -> None:
    settings = KubernetesSettings(priority_class="training", image="default:1", trust_templates=True)
    container = {
        "env": [{"name": "GREETING", "value": "mine"}],
        "resources": {"limits": {"nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"}},
    }
    labels = {"elastic-gpu-scheduler/job": "1"}
    template = {"metadata": {"labels": labels}, "spec": {"priorityClassName": "top", "containers": [container]}}
    pod = made(template, settings)
    assert pod["spec"]["priorityClassName"] == "training"
    assert worker(pod)["env"] == [{"name": "GREETING", "value": "hello"}]
    assert worker(pod)["resources"]["limits"] == {"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "memory": "32Mi"}
    assert pod["metadata"]["labels"]["elastic-gpu-scheduler/job"] == "7"


def test_no_controller_adopts_a_pod_and_the_kubelet_restarts_no_worker() -> None:
    (owner,) = made()["metadata"]["ownerReferences"]
    assert owner["controller"] is True
    for settings in (SETTINGS, SETTINGS.model_copy(update={"trust_templates": True})):
        for field in ({"restartPolicy": "Always"}, {"restartPolicyRules": []}):
            with pytest.raises(InvalidInput) as caught:
                made({"spec": {"containers": [{"name": "worker", **field}]}}, settings)
            assert caught.value.field == f"pod_template.spec.containers.0.{next(iter(field))}"
        made({"spec": {"initContainers": [{"name": "sidecar", "image": "s", "restartPolicy": "Always"}]}}, settings)


def test_the_role_of_a_worker_is_a_label_and_one_without_slots_sees_no_gpu() -> None:
    pod, server = made(), made(role=Role.FIXED, slot_ids=())
    role = "elastic-gpu-scheduler/role"
    assert (pod["metadata"]["labels"][role], server["metadata"]["labels"][role]) == ("worker", "fixed")
    assert worker(server)["resources"]["limits"]["nvidia.com/gpu"] == "0"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in worker(server)["env"]
    assert all(each["name"] != "NVIDIA_VISIBLE_DEVICES" for each in worker(pod)["env"])
    seen = read(server)
    assert seen is not None
    assert seen.slot_ids == ()


def test_a_pod_with_an_address_of_its_own_has_the_name_that_others_reach_it_by() -> None:
    spec = made()["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("sched-7-1", "sched-workers")
    spec = made({"spec": {"hostNetwork": True}}, KubernetesSettings(image="default:1", trust_templates=True))["spec"]
    assert "hostname" not in spec
    assert "subdomain" not in spec


CHECKPOINTS = {"SCHED_CHECKPOINT_DIR": "/checkpoints/7-abc/checkpoint"}


def with_mounts(*mounts: Mapping[str, Any], **env: str) -> Any:
    volumes = [{"name": "work", "persistentVolumeClaim": {"claimName": "work"}}]
    template = {"spec": {"volumes": volumes, "containers": [{"volumeMounts": list(mounts)}]}}
    return worker(made(template, env=tuple({**CHECKPOINTS, **env}.items())))


@pytest.mark.parametrize(
    ("mount", "made_of_it"),
    [
        ({"mountPath": "/checkpoints"}, "7-abc/checkpoint"),
        ({"mountPath": "/checkpoints/", "subPath": "team/a"}, "team/a/7-abc/checkpoint"),
        ({"mountPath": "/"}, "checkpoints/7-abc/checkpoint"),
    ],
)
def test_a_job_has_a_directory_for_checkpoints_on_the_volume_that_its_template_mounts(
    mount: Mapping[str, Any], made_of_it: str
) -> None:
    other = {"name": "work", "mountPath": "/data"}
    container = with_mounts(other, {"name": "work", **mount})
    directory = CHECKPOINTS["SCHED_CHECKPOINT_DIR"]
    added = {"name": "work", "mountPath": directory, "subPath": made_of_it}
    assert container["volumeMounts"] == [other, {"name": "work", **mount}, added]
    assert {"name": "SCHED_CHECKPOINT_DIR", "value": directory} in container["env"]


@pytest.mark.parametrize(
    "mount", [{"mountPath": "/check"}, {"mountPath": "/checkpoints", "readOnly": True}, {"mountPath": "/data"}]
)
def test_without_a_volume_for_them_no_variable_names_a_directory_for_checkpoints(mount: Mapping[str, Any]) -> None:
    container = with_mounts({"name": "work", **mount}, A="1")
    assert container["volumeMounts"] == [{"name": "work", **mount}]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert "SCHED_CHECKPOINT_DIR" not in str(made(env=tuple(CHECKPOINTS.items())))


def test_a_volume_that_is_the_directory_itself_is_taken_as_it_is() -> None:
    directory = CHECKPOINTS["SCHED_CHECKPOINT_DIR"]
    for mount in ({"mountPath": directory}, {"mountPath": "/checkpoints", "subPathExpr": "$(RANK)"}):
        container = with_mounts({"name": "work", **mount})
        assert container["volumeMounts"] == [{"name": "work", **mount}]
        assert {"name": "SCHED_CHECKPOINT_DIR", "value": directory} in container["env"]


def test_a_worker_waits_in_an_init_container_for_its_own_name_and_those_that_it_looks_for() -> None:
    settings = KubernetesSettings(image="default:1", names_image="names:1")
    master = "sched-7-2.sched-workers.default.svc"
    env = {"MASTER_ADDR": master, "SCHED_FIXED_HOSTS": "sched-7-3.sched-workers.default.svc:29500,10.0.0.1:29500"}
    first = {"name": "first", "image": "first:1"}
    pod = made({"spec": {"initContainers": [first]}}, settings, env=tuple(env.items()))
    before, waiting = pod["spec"]["initContainers"]
    assert (before["name"], waiting["name"], waiting["image"]) == ("first", "await-names", "names:1")
    own = "sched-7-1.sched-workers.default.svc"
    assert waiting["command"][:2] == ["sh", "-c"]
    assert waiting["command"][4:] == [own, master, "sched-7-3.sched-workers.default.svc"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in waiting["env"]


def test_nobody_waits_for_names_where_none_are_used_or_the_settings_name_no_image() -> None:
    env = (("MASTER_ADDR", "10.0.0.1"),)
    trusting = KubernetesSettings(image="default:1", names_image="names:1", trust_templates=True)
    assert "initContainers" not in made({"spec": {"hostNetwork": True}}, trusting, env=env)["spec"]
    assert "initContainers" not in made()["spec"]
    (waiting,) = made(settings=trusting, env=env)["spec"]["initContainers"]
    assert waiting["command"][4:] == ["sched-7-1.sched-workers.default.svc"]


def test_a_template_that_makes_no_sense_is_told() -> None:
    with pytest.raises(InvalidInput, match=r"pod_template\.spec\.affinity\.nodeAffinity: must be a mapping"):
        made({"spec": {"affinity": {"nodeAffinity": ["x"]}}})
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [1]}}}
    with pytest.raises(InvalidInput, match="pod_template: cannot be used"):
        made({"spec": {"affinity": required}})


def test_each_term_of_a_users_affinity_is_pinned_to_the_node() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}, {"matchFields": []}]
    required = {"nodeSelectorTerms": terms}
    affinity = {"podAffinity": {"x": 1}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = made({"spec": {"affinity": affinity}})["spec"]["affinity"]
    assert found["podAffinity"] == {"x": 1}
    pinned = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert pinned[0]["matchExpressions"] == terms[0]["matchExpressions"]
    assert all(term["matchFields"][-1]["values"] == ["a"] for term in pinned)


def test_one_slot_is_one_cpu_where_slots_are_cpus() -> None:
    settings = KubernetesSettings(resource="cpu", image="default:1")
    assert worker(made(settings=settings))["resources"]["requests"] == {"cpu": "2000m", "memory": "32Mi"}
    assert worker(made(settings=settings, cpus=2.5))["resources"]["requests"]["cpu"] == "2500m"


def test_a_worker_is_read_back_from_its_pod() -> None:
    who = read(made())
    assert who is not None
    assert (who.worker_id, who.job_id, who.node) == (START.worker_id, START.job_id, START.node)
    assert (who.slot_ids, who.cpus, who.memory_mib) == (START.slot_ids, START.cpus, START.memory_mib)
    assert read(made(), KubernetesSettings(instance="other")) is None
    assert read(made(), KubernetesSettings(namespace="elsewhere")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "sched-7-2"},
        {"namespace": "team-a"},
        {"labels": {"worker": "8-1"}},
        {"labels": {"job": "8"}},
        {"labels": {"job": "x"}},
        {"annotations": {"seal": "0" * 64}},
        {"annotations": {"seal": "é"}},
        {"annotations": {"cpus": "inf"}},
        {"annotations": {"cpus": "nan"}},
        {"annotations": {"cpus": "-1"}},
        {"annotations": {"memory-mib": "9" * 30}},
        {"annotations": {"slots": "-1"}},
    ],
)
def test_a_pod_that_somebody_else_has_made_or_changed_is_no_worker(change: dict[str, Any]) -> None:
    settings = KubernetesSettings(image="default:1", namespaces=("team-a",))
    pod = made(settings=settings)
    assert read(pod, settings) is not None
    for part, value in change.items():
        pod["metadata"][part] = (
            {**pod["metadata"][part], **{f"{PREFIX}/{key}": text for key, text in value.items()}}
            if isinstance(value, dict)
            else value
        )
    assert read(pod, settings) is None
    assert read(made(settings=settings), settings, b"another") is None


SHARED: dict[str, Any] = {"shared": True, "slot_ids": (0, 3)}
GPUS = ("GPU-1", "GPU-2")


def shared(start: StartWorker, settings: KubernetesSettings) -> Any:
    return pod_manifest(start, settings, OWNER, WorkerPods(settings, SECRET).seal, GPUS)


def test_a_worker_that_shares_gpus_sees_those_whatever_else_is_asked_for_and_asks_for_none() -> None:
    settings = KubernetesSettings(image="default:1", trust_templates=True)
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    container = {"env": [variable], "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "4"}}}
    template = json.dumps({"spec": {"containers": [container]}})
    start = replace(START, **SHARED, env=(("NVIDIA_VISIBLE_DEVICES", "0"),), pod_template=template)
    pod = shared(start, settings)
    assert worker(pod)["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-1,GPU-2"}]
    assert worker(pod)["resources"]["limits"]["nvidia.com/gpu"] == "0"
    assert worker(pod)["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi", "nvidia.com/gpu": "0"}
    seen = read(pod, settings)
    assert seen is not None
    assert (seen.shared, seen.slot_ids, seen.gpus) == (True, (0, 3), GPUS)


@pytest.mark.parametrize(("cpus", "own", "sharing"), [(0.0, "2000m", "0"), (2.0, "2000m", "0"), (2.5, "2500m", "500m")])
def test_a_worker_that_shares_cpu_slots_asks_only_for_cpus_beyond_them(cpus: float, own: str, sharing: str) -> None:
    settings = KubernetesSettings(image="default:1", resource="cpu")
    pods = made(settings=settings, cpus=cpus), made(settings=settings, cpus=cpus, **SHARED)
    assert [worker(pod)["resources"]["requests"]["cpu"] for pod in pods] == [own, sharing]


@pytest.mark.parametrize("gpus", ["GPU-1", "GPU-1,GPU-2,GPU-3", "all,GPU-2", "GPU-1,MIG-2"])
def test_a_pod_with_other_gpus_than_a_daemon_writes_is_no_worker(gpus: str) -> None:
    pod = shared(replace(START, **SHARED), SETTINGS)
    pod["metadata"]["annotations"][f"{PREFIX}/gpus"] = gpus
    assert read(pod) is None


def requests(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({"containers": [requests("1"), requests("500m")]}, "1.5"),
        ({"containers": [requests("1")], "initContainers": [requests("3"), requests("2")]}, "3"),
        ({"containers": [requests("1")], "initContainers": [requests("1", restartPolicy="Always")]}, "2"),
        (
            {"containers": [requests("1")], "initContainers": [requests("1", restartPolicy="Always"), requests("3")]},
            "4",
        ),
        ({"containers": [requests("1")], "overhead": {"cpu": "100m"}}, "1.1"),
    ],
)
def test_a_pod_holds_what_the_clusters_scheduler_counts(spec: Any, cpus: str) -> None:
    assert requests_of(spec, "nvidia.com/gpu").cpus == Decimal(cpus)


def test_slots_that_are_begun_count_in_full_and_slots_that_are_not_whole_do_not() -> None:
    part = Amounts(Decimal("1.5"), Decimal(0), Decimal(1048577))
    assert (part.whole_slots, part.touched_slots, part.whole_mib, part.touched_mib) == (1, 2, 1, 2)


def test_requests_are_paced_and_a_turn_that_comes_too_late_is_not_taken() -> None:
    clock = VirtualClock()
    pace = Pace(2.0, clock)
    assert [pace.seconds_to_wait(10.0) for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    assert pace.seconds_to_wait(1.0) is None
    clock.advance(0.5)
    assert pace.seconds_to_wait(1.0) == 1.0
    clock.advance(60.0)
    assert [pace.seconds_to_wait(10.0) for _ in range(3)] == [0.0, 0.0, 0.5]
