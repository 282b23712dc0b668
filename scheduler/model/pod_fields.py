"""The fields of a pod template, and what they may hold where users are not trusted with the nodes.

What is not named here is refused. Allowed is what the policy `baseline` of the Pod Security Standards allows, less what
would reach beyond the job: volumes of the node or the network, accounts, labels that others select by, GPUs that nobody
counts. https://kubernetes.io/docs/concepts/security/pod-security-standards/ Standard library only.
"""

import re
from posixpath import normpath
from typing import Any

from scheduler.model.field_rules import (
    ANYTHING,
    FLAG,
    QUANTITY,
    TEXT,
    TEXT_MAP,
    TEXTS,
    WHOLE,
    WHOLES,
    Leave,
    ListOf,
    MapOf,
    Only,
    Record,
    Refused,
    Rule,
)

_TRUST = "not allowed without kubernetes.trust_templates"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9]([-_A-Za-z0-9]*[A-Za-z0-9])?")
#: Variables by which container runtimes hand out devices. Those that a program reads only narrow what it was given.
_DEVICE_VARIABLE = re.compile(
    r"(?!(CUDA|HIP|ROCR|ASCEND_RT)_)\w+_VISIBLE_DEVICES|NVIDIA_MIG_\w+_DEVICES|NVIDIA_IMEX_CHANNELS", re.IGNORECASE
)
_DEVICE_MOUNTS = re.compile(r"/+(var/+)?run/+nvidia-container-devices(/.*)?")
_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_COUNTED = frozenset({"cpu", "memory", "ephemeral-storage"})


def is_device_variable(name: str) -> bool:
    """Whether a variable of this name can give a container devices that it did not ask for."""
    return _DEVICE_VARIABLE.fullmatch(name) is not None


def _refused_key(name: str, leave: Leave) -> str | None:
    if _PLAIN_KEY.fullmatch(name):
        return None
    return f"{_TRUST}: keys of users have letters, digits, - and _, without a prefix"


def _refused_resource(name: str, leave: Leave) -> str | None:
    if name in _COUNTED or name.startswith("hugepages-") or name in leave.resources:
        return None
    return f"{_TRUST}: slots come from slots_per_worker; kubernetes.template_resources names what is not counted"


def _never(why: str = _TRUST) -> Rule:
    """A flag that must not be set."""
    return Only(FLAG, lambda value: value is False, why)


def _one_of(*allowed: str) -> Rule:
    return Only(TEXT, lambda value: value in allowed, f"{_TRUST}: must be {' or '.join(allowed)}")


_KEYS = {"items": ListOf(Record({"key": TEXT, "path": TEXT, "mode": WHOLE})), "optional": FLAG}
_FIELD_REF = Record({"apiVersion": TEXT, "fieldPath": TEXT})
_RESOURCE_REF = Record({"containerName": TEXT, "resource": TEXT, "divisor": QUANTITY})
_DOWNWARD = ListOf(Record({"path": TEXT, "mode": WHOLE, "fieldRef": _FIELD_REF, "resourceFieldRef": _RESOURCE_REF}))
_KEY_REF = Record({"name": TEXT, "key": TEXT, "optional": FLAG})
_USER = {"runAsUser": WHOLE, "runAsGroup": WHOLE, "runAsNonRoot": FLAG}
_CONFINED = Record({"type": _one_of("RuntimeDefault", "Localhost"), "localhostProfile": TEXT})
_CONFINEMENT = {
    "seccompProfile": _CONFINED,
    "appArmorProfile": _CONFINED,
    "seLinuxOptions": Refused(_TRUST),
    "windowsOptions": Refused(_TRUST),
}

_VARIABLE = Record(
    {
        "name": Only(
            TEXT, lambda name: not is_device_variable(name), f"{_TRUST}: slots say which devices a worker sees"
        ),
        "value": TEXT,
        "valueFrom": Record(
            {
                "fieldRef": _FIELD_REF,
                "resourceFieldRef": _RESOURCE_REF,
                "configMapKeyRef": _KEY_REF,
                "secretKeyRef": _KEY_REF,
            }
        ),
    },
    required=("name",),
)
_AMOUNTS = MapOf(QUANTITY, _refused_resource)
_RESOURCES = Record({"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": Refused(_TRUST)})
_PORT = Record(
    {
        "name": TEXT,
        "containerPort": WHOLE,
        "protocol": TEXT,
        "hostPort": Only(WHOLE, lambda port: port == 0, _TRUST),
        "hostIP": Refused(_TRUST),
    }
)
_PORT_NAME: Rule = ANYTHING
_ELSEWHERE = Refused(f"{_TRUST}: the node asks the pod itself")
_ACTIONS = {
    "exec": Record({"command": TEXTS}),
    "httpGet": Record(
        {
            "path": TEXT,
            "port": _PORT_NAME,
            "scheme": TEXT,
            "host": _ELSEWHERE,
            "httpHeaders": ListOf(Record({"name": TEXT, "value": TEXT})),
        }
    ),
    "tcpSocket": Record({"port": _PORT_NAME, "host": _ELSEWHERE}),
}
_PROBE = Record(
    {
        **_ACTIONS,
        "grpc": Record({"port": WHOLE, "service": TEXT}),
        "initialDelaySeconds": WHOLE,
        "timeoutSeconds": WHOLE,
        "periodSeconds": WHOLE,
        "successThreshold": WHOLE,
        "failureThreshold": WHOLE,
        "terminationGracePeriodSeconds": WHOLE,
    }
)
_HOOK = Record({**_ACTIONS, "sleep": Record({"seconds": WHOLE})})
_CAPABILITY = Only(TEXT, lambda name: name in _CAPABILITIES, f"{_TRUST}: reaches beyond the container")
_CONTAINER = Record(
    {
        "name": TEXT,
        "image": TEXT,
        "imagePullPolicy": TEXT,
        "command": TEXTS,
        "args": TEXTS,
        "workingDir": TEXT,
        "ports": ListOf(_PORT),
        "env": ListOf(_VARIABLE),
        "envFrom": Refused(f"{_TRUST}: name each variable in env, with valueFrom"),
        "resources": _RESOURCES,
        "resizePolicy": ANYTHING,
        "restartPolicy": TEXT,
        "volumeMounts": ListOf(
            Record(
                {
                    "name": TEXT,
                    "mountPath": Only(TEXT, lambda path: not _DEVICE_MOUNTS.fullmatch(normpath(path)), _TRUST),
                    "subPath": TEXT,
                    "subPathExpr": TEXT,
                    "readOnly": FLAG,
                    "recursiveReadOnly": TEXT,
                    "mountPropagation": _one_of("None", "HostToContainer"),
                }
            )
        ),
        "volumeDevices": ListOf(Record({"name": TEXT, "devicePath": TEXT})),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": Record({"postStart": _HOOK, "preStop": _HOOK, "stopSignal": TEXT}),
        "terminationMessagePath": TEXT,
        "terminationMessagePolicy": TEXT,
        "securityContext": Record(
            {
                **_USER,
                **_CONFINEMENT,
                "allowPrivilegeEscalation": _never(),
                "capabilities": Record({"add": ListOf(_CAPABILITY), "drop": TEXTS}),
                "privileged": _never(),
                "procMount": _one_of("Default"),
                "readOnlyRootFilesystem": FLAG,
            }
        ),
        "stdin": FLAG,
        "stdinOnce": FLAG,
        "tty": FLAG,
    }
)

_CLAIM = "not allowed without kubernetes.trust_templates: use a persistentVolumeClaim"
_NODE_VOLUMES = ("hostPath", "gitRepo", "flexVolume")
_NETWORK_VOLUMES = (
    *(
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flocker",
        "gcePersistentDisk",
    ),
    *("glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
_VOLUME = Record(
    {
        "name": TEXT,
        "configMap": Record({"name": TEXT, "defaultMode": WHOLE, **_KEYS}),
        "downwardAPI": Record({"defaultMode": WHOLE, "items": _DOWNWARD}),
        "emptyDir": Record({"medium": TEXT, "sizeLimit": QUANTITY}),
        "ephemeral": Record({"volumeClaimTemplate": ANYTHING}),
        "image": Record({"reference": TEXT, "pullPolicy": TEXT}),
        "persistentVolumeClaim": Record({"claimName": TEXT, "readOnly": FLAG}),
        "projected": Record(
            {
                "defaultMode": WHOLE,
                "sources": ListOf(
                    Record(
                        {
                            "configMap": Record({"name": TEXT, **_KEYS}),
                            "secret": Record({"name": TEXT, **_KEYS}),
                            "downwardAPI": Record({"items": _DOWNWARD}),
                            "serviceAccountToken": Refused(f"{_TRUST}: workers have no rights in the cluster"),
                            "clusterTrustBundle": Refused(_TRUST),
                            "podCertificate": Refused(_TRUST),
                        }
                    )
                ),
            }
        ),
        "secret": Record({"secretName": TEXT, "defaultMode": WHOLE, **_KEYS}),
        **dict.fromkeys(_NODE_VOLUMES, Refused(_TRUST)),
        **dict.fromkeys(_NETWORK_VOLUMES, Refused(_CLAIM)),
    }
)
_TOLERATION = Record(
    {
        "key": Only(TEXT, lambda key: key and not key.startswith("node-role.kubernetes.io/"), _TRUST),
        "operator": TEXT,
        "value": TEXT,
        "effect": TEXT,
        "tolerationSeconds": WHOLE,
    }
)
_SECURITY = Record(
    {
        **_USER,
        **_CONFINEMENT,
        "supplementalGroups": WHOLES,
        "supplementalGroupsPolicy": TEXT,
        "fsGroup": WHOLE,
        "fsGroupChangePolicy": TEXT,
        "seLinuxChangePolicy": TEXT,
        "sysctls": ListOf(Record({"name": Only(TEXT, lambda name: name in _SYSCTLS, _TRUST), "value": TEXT})),
    }
)
_ACCOUNT = Refused(f"{_TRUST}: kubernetes.service_account is that of all workers")
_CLASS = Refused(f"{_TRUST}: use priority of the job; pods have kubernetes.priority_class")
_SCHEDULER = Refused(f"{_TRUST}: the scheduler of the cluster binds workers to the nodes that were chosen for them")


def _with_key(toleration: Any) -> bool:
    return "key" in toleration


_SPEC = Record(
    {
        "activeDeadlineSeconds": WHOLE,
        "affinity": Record(
            {
                "nodeAffinity": Record(
                    {
                        "requiredDuringSchedulingIgnoredDuringExecution": ANYTHING,
                        "preferredDuringSchedulingIgnoredDuringExecution": ANYTHING,
                    }
                ),
                "podAffinity": ANYTHING,
                "podAntiAffinity": Refused(f"{_TRUST}: it keeps pods of others off the node"),
            }
        ),
        "automountServiceAccountToken": _never(f"{_TRUST}: workers have no rights in the cluster"),
        "containers": ListOf(_CONTAINER),
        "dnsConfig": Record({"nameservers": TEXTS, "searches": TEXTS, "options": ANYTHING}),
        "dnsPolicy": TEXT,
        "enableServiceLinks": FLAG,
        "hostAliases": ListOf(Record({"ip": TEXT, "hostnames": TEXTS})),
        "hostIPC": _never(),
        "hostNetwork": _never(),
        "hostPID": _never(),
        "hostUsers": FLAG,
        "hostnameOverride": Refused("not allowed: the scheduler names pods so that workers find each other"),
        "imagePullSecrets": ListOf(Record({"name": TEXT})),
        "initContainers": ListOf(_CONTAINER),
        "nodeSelector": TEXT_MAP,
        "os": Record({"name": TEXT}),
        "overhead": Refused(_TRUST),
        "preemptionPolicy": _CLASS,
        "priority": _CLASS,
        "priorityClassName": _CLASS,
        "readinessGates": Refused(_TRUST),
        "resourceClaims": Refused(f"{_TRUST}: slots come from slots_per_worker"),
        "resources": _RESOURCES,
        "runtimeClassName": TEXT,
        "schedulerName": _SCHEDULER,
        "schedulingGates": _SCHEDULER,
        "securityContext": _SECURITY,
        "serviceAccount": _ACCOUNT,
        "serviceAccountName": _ACCOUNT,
        "setHostnameAsFQDN": FLAG,
        "shareProcessNamespace": FLAG,
        "tolerations": ListOf(Only(_TOLERATION, _with_key, f"{_TRUST}: must name a key")),
        "topologySpreadConstraints": ANYTHING,
        "volumes": ListOf(_VOLUME),
        "workloadRef": _SCHEDULER,
        "schedulingGroup": _SCHEDULER,
    }
)
_KEYS_OF_USERS = MapOf(TEXT, _refused_key)

#: What a pod template may hold. Rules that follow from how the scheduler itself works stand in `model.pod_template`.
POD_TEMPLATE = Record(
    {
        "metadata": Record({"labels": _KEYS_OF_USERS, "annotations": _KEYS_OF_USERS, "namespace": TEXT}),
        "spec": _SPEC,
    }
)
