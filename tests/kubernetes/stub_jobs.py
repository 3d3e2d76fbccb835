"""Indexed Jobs (batch/v1) of the stub API server: what the Job controller does with the fields that
Lockstep prints. A Job makes a Pod for each index; one Pod that fails ends it, as `backoffLimit: 0`
says. Times and other limits are not enforced.
"""

from __future__ import annotations

import copy
import uuid

from tests.kubernetes.stub_objects import ApiError, Object
from tests.kubernetes.stub_store import Store, now

INDEX = "batch.kubernetes.io/job-completion-index"
ENDS = ("Complete", "Failed")


def check_job(job: Object) -> None:
    spec = job.get("spec", {})
    if spec.get("completionMode") != "Indexed" or spec.get("backoffLimit") != 0:
        raise ApiError(422, "the stub knows Indexed Jobs with a backoffLimit of 0 alone")
    if spec.get("completions") != spec.get("parallelism"):
        raise ApiError(422, "the stub knows Jobs whose Pods all run at once alone")


def has_ended(job: Object) -> bool:
    return any(each["type"] in ENDS for each in job.get("status", {}).get("conditions", []))


class JobController:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_working = False
        store.checks["jobs"] = check_job
        store.after_change.append(self.work)

    def work(self) -> None:
        if self.is_working:  # by its own changes
            return
        self.is_working = True
        try:
            for key, job in list(self.store.objects.items()):
                if key[0] == "jobs" and not has_ended(job) and not job["spec"].get("suspend"):
                    self.advance(key[1], job)
        finally:
            self.is_working = False

    def advance(self, namespace: str, job: Object) -> None:
        pods = self.pods_of(namespace, job)
        made = {pod["metadata"]["annotations"][INDEX] for pod in pods}
        for index in range(job["spec"]["completions"]):
            if str(index) not in made:
                self.store.create("pods", namespace, pod_of(job, index))
        phases = [pod["status"].get("phase") for pod in pods]
        if "Failed" in phases:
            self.end(namespace, job, "Failed", phases)
            for pod in self.pods_of(namespace, job):
                if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                    self.store.delete("pods", namespace, pod["metadata"]["name"], {})
        elif phases.count("Succeeded") == job["spec"]["completions"]:
            self.end(namespace, job, "Complete", phases)

    def pods_of(self, namespace: str, job: Object) -> list[Object]:
        return [
            item
            for key, item in self.store.objects.items()
            if key[:2] == ("pods", namespace)
            and job["metadata"]["uid"]
            in [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
        ]

    def end(self, namespace: str, job: Object, kind: str, phases: list[str]) -> None:
        changed = copy.deepcopy(job)
        condition = {"type": kind, "status": "True", "lastTransitionTime": now()}
        changed["status"] = {
            "conditions": [condition],
            "succeeded": phases.count("Succeeded"),
            "failed": phases.count("Failed"),
        }
        self.store.put("MODIFIED", ("jobs", namespace, job["metadata"]["name"]), changed)


def pod_of(job: Object, index: int) -> Object:
    """Its host name has the index; its name has an ending that differs each time."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    pod: Object = copy.deepcopy(job["spec"]["template"])
    metadata = pod.setdefault("metadata", {})
    metadata["name"] = f"{name}-{index}-{uuid.uuid4().hex[:5]}"
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    metadata.setdefault("labels", {}).update({"job-name": name, "controller-uid": uid})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    metadata["ownerReferences"] = [owner]
    pod["spec"]["hostname"] = f"{name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    for container in pod["spec"]["containers"]:
        container.setdefault("env", []).append(
            {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
        )
    return pod
