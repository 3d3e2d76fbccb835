"""Objects with good defaults: a test states what matters to it."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.api import Api, Object, Refused

from tests.conftest import wait_until


def config_map(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


def pod(name: str, *command: str, node: str = "", **spec: Any) -> Object:
    """One container; with a node pinned to it as the engine does, by affinity. Without one, any
    Node of another test may get it."""
    container = {"name": "main", "image": "any", "command": list(command or ["sleep", "1000"])}
    container.update(spec.pop("container", {}))
    whole: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        **spec,
    }
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        whole["affinity"] = {"nodeAffinity": {key: terms}}
    return {"metadata": {"name": name}, "spec": whole}


def make_claim(api: Api, namespace: str, name: str, folder: str) -> None:
    """A claim that is bound to a volume of its own: this folder."""
    volume = f"{namespace}-{name}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    spec = {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": folder}}
    api.create("persistentvolumes", "", {"metadata": {"name": volume}, "spec": spec})
    wanted = {**common, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": name}, "spec": wanted}
    api.create("persistentvolumeclaims", namespace, claim)


def phase_of(api: Api, namespace: str, name: str) -> str:
    return str(api.get("pods", namespace, name)["status"].get("phase"))


def await_phase(api: Api, namespace: str, name: str, *phases: str) -> Object:
    """The Pod, once its phase is one of them."""
    what = f"Pod {name} is {' or '.join(phases)}"
    wait_until(what, lambda: phase_of(api, namespace, name) in phases)
    return api.get("pods", namespace, name)


def is_gone(api: Api, resource: str, namespace: str, name: str) -> bool:
    try:
        api.get(resource, namespace, name)
    except Refused as refused:
        assert refused.code == 404
        return True
    return False


def state_of(item: Object, container: str = "main") -> Object:
    """The state of a container: {"terminated": {...}} and so on."""
    status = item["status"]
    every = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    return next((dict(each["state"]) for each in every if each["name"] == container), {})
