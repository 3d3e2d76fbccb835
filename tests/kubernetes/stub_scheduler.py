"""Binds the Pods of the stub API server to Nodes: what kube-scheduler does with the fields that
Lockstep uses. A Pod that fits nowhere gets the condition PodScheduled=False, Unschedulable.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from typing import Any

from tests.kubernetes.stub_objects import Object
from tests.kubernetes.stub_store import Store, now

MULTIPLES = {"": 1, "m": 0.001, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MULTIPLES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def amount(quantity: Any) -> float:
    found = re.fullmatch(r"([0-9.]+)(\w*)", str(quantity))
    assert found, f"{quantity} is no quantity"
    return float(found[1]) * MULTIPLES[found[2]]


def requests(pod: Object) -> Counter[str]:
    total: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        wanted = {**resources.get("limits", {}), **resources.get("requests", {})}
        for name, quantity in wanted.items():
            total[name] += amount(quantity)  # type: ignore[assignment]
    return total


def holds_resources(pod: Object, node: str) -> bool:
    is_there = pod["spec"].get("nodeName") == node
    return is_there and pod["status"].get("phase") not in ("Succeeded", "Failed")


def is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_wanted(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector", {})
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", [{}])
    fields = {"metadata.name": node["metadata"]["name"]}
    return selector.items() <= labels.items() and any(
        all(expresses(labels, each) for each in term.get("matchExpressions", []))
        and all(expresses(fields, each) for each in term.get("matchFields", []))
        for term in terms
    )


def expresses(values: dict[str, str], requirement: Object) -> bool:
    value, operator = values.get(requirement["key"]), requirement["operator"]
    if operator in ("In", "NotIn"):
        return (value in requirement["values"]) is (operator == "In")
    return (value is not None) is (operator == "Exists")


def is_tolerated(pod: Object, taint: Object) -> bool:
    if taint["effect"] == "PreferNoSchedule":
        return True
    return any(
        each.get("key") in (None, taint["key"])
        and each.get("effect") in (None, "", taint["effect"])
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in pod["spec"].get("tolerations", [])
    )


class Scheduler:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_working = False
        store.after_change.append(self.schedule)

    def schedule(self) -> None:
        if self.is_working:  # by its own changes
            return
        self.is_working = True
        try:
            for key, pod in list(self.store.objects.items()):
                if key[0] == "pods" and not pod["spec"].get("nodeName"):
                    self.place(pod)
        finally:
            self.is_working = False

    def place(self, pod: Object) -> None:
        if missing := self.missing_claim(pod):
            if not condition_of(pod):
                message = f'persistentvolumeclaim "{missing}" not found'
                self.set_condition(pod, "False", reason="Unschedulable", message=message)
            return
        nodes = [item for key, item in self.store.objects.items() if key[0] == "nodes"]
        fitting = [node for node in nodes if self.fits(pod, node)]
        if fitting:
            self.bind(pod, fitting[0]["metadata"]["name"])
        elif not condition_of(pod):
            message = f"0/{len(nodes)} nodes are available."
            self.set_condition(pod, "False", reason="Unschedulable", message=message)

    def missing_claim(self, pod: Object) -> str:
        for volume in pod["spec"].get("volumes", []):
            name = volume.get("persistentVolumeClaim", {}).get("claimName", "")
            key = ("persistentvolumeclaims", pod["metadata"]["namespace"], name)
            if name and key not in self.store.objects:
                return str(name)
        return ""

    def fits(self, pod: Object, node: Object) -> bool:
        free = Counter({k: amount(v) for k, v in node["status"].get("allocatable", {}).items()})
        for key, other in self.store.objects.items():
            if key[0] == "pods" and holds_resources(other, node["metadata"]["name"]):
                free.subtract(requests(other))
        return (
            is_ready(node)
            and not node.get("spec", {}).get("unschedulable")
            and is_wanted(pod, node)
            and all(is_tolerated(pod, taint) for taint in node.get("spec", {}).get("taints", []))
            and all(free[name] >= wanted for name, wanted in requests(pod).items())
        )

    def bind(self, pod: Object, node: str) -> None:
        changed = copy.deepcopy(pod)
        changed["spec"]["nodeName"] = node
        self.set_condition(changed, "True")

    def set_condition(self, pod: Object, status: str, **more: str) -> None:
        changed = copy.deepcopy(pod)
        condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": now(), **more}
        changed["status"]["conditions"] = [condition]
        metadata = pod["metadata"]
        self.store.put("MODIFIED", ("pods", metadata["namespace"], metadata["name"]), changed)


def condition_of(pod: Object) -> Object | None:
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)
