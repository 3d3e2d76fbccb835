"""JobSets (jobset.x-k8s.io/v1alpha2) of the stub API server: what their controller does with the
fields that Lockstep prints. Each replicated Job makes its Jobs; one that fails ends the JobSet.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
from tests.kubernetes.stub_jobs import check_job, has_ended
from tests.kubernetes.stub_objects import ApiError, Object
from tests.kubernetes.stub_store import Store, now

SCHEMA = Path(__file__).parents[1] / "golden/kubernetes/jobset.schema.json"


def check_jobset(jobset: Object) -> None:
    try:
        jsonschema.validate(jobset, json.loads(SCHEMA.read_text()))
    except jsonschema.ValidationError as error:
        raise ApiError(422, f"{error.json_path}: Invalid value: {error.message}") from error
    spec = jobset["spec"]
    if spec.get("failurePolicy", {}).get("maxRestarts") != 0:
        raise ApiError(422, "the stub knows JobSets with `maxRestarts: 0` alone")
    for each in spec["replicatedJobs"]:
        check_job(each["template"])


class JobSetController:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_working = False
        store.checks["jobsets"] = check_jobset
        store.after_change.append(self.work)

    def work(self) -> None:
        if self.is_working:  # by its own changes
            return
        self.is_working = True
        try:
            for key, jobset in list(self.store.objects.items()):
                if key[0] == "jobsets" and not has_finished(jobset):
                    self.advance(key[1], jobset)
        finally:
            self.is_working = False

    def advance(self, namespace: str, jobset: Object) -> None:
        wanted = [
            job_of(jobset, each, index)
            for each in jobset["spec"]["replicatedJobs"]
            for index in range(each.get("replicas", 1))
        ]
        for job in wanted:
            if ("jobs", namespace, job["metadata"]["name"]) not in self.store.objects:
                self.store.create("jobs", namespace, job)
        made = [self.store.find("jobs", namespace, job["metadata"]["name"]) for job in wanted]
        ends = [job["status"]["conditions"][0]["type"] for job in made if has_ended(job)]
        if "Failed" in ends:
            self.end(namespace, jobset, "Failed")
        elif ends.count("Complete") == len(wanted):
            self.end(namespace, jobset, "Completed")

    def end(self, namespace: str, jobset: Object, kind: str) -> None:
        changed = copy.deepcopy(jobset)
        condition = {"type": kind, "status": "True", "lastTransitionTime": now()}
        changed["status"] = {"conditions": [condition], "terminalState": kind}
        self.store.put("MODIFIED", ("jobsets", namespace, jobset["metadata"]["name"]), changed)


def has_finished(jobset: Object) -> bool:
    return bool(jobset.get("status", {}).get("terminalState"))


def job_of(jobset: Object, replicated: Object, index: int) -> Object:
    """Its Pods have host names in the subdomain of the JobSet, whose Service its controller
    makes."""
    name, uid = jobset["metadata"]["name"], jobset["metadata"]["uid"]
    job: Object = copy.deepcopy(replicated["template"])
    metadata = job.setdefault("metadata", {})
    metadata["name"] = f"{name}-{replicated['name']}-{index}"
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": uid}
    metadata["ownerReferences"] = [owner]
    pod = job["spec"]["template"]
    pod.setdefault("metadata", {}).setdefault("labels", {})["jobset.sigs.k8s.io/jobset-name"] = name
    pod["spec"]["subdomain"] = jobset["spec"].get("network", {}).get("subdomain", name)
    return job
