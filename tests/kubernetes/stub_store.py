"""The objects of the stub API server, their versions, and what watches are told of them.

Every change has a version, higher by one than the last. `events` keeps the changes until `forget`
drops them: a watch from before that is answered by 410. One lock guards all; a change wakes the
watches.
"""

from __future__ import annotations

import base64
import copy
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.kubernetes.stub_objects import (
    ApiError,
    Object,
    check_name,
    matches_fields,
    matches_labels,
    merged,
    put_status,
)

KINDS = {
    "pods": "Pod",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "services": "Service",
    "events": "Event",
    "serviceaccounts": "ServiceAccount",
    "nodes": "Node",
    "namespaces": "Namespace",
    "jobs": "Job",
    "jobsets": "JobSet",
}
GROUPS = {
    "jobs": "batch/v1",
    "jobsets": "jobset.x-k8s.io/v1alpha2",
}  # of resources that are not of the core API
WITHOUT_NAMESPACE = ("nodes", "namespaces", "persistentvolumes")
GRACE_PERIOD = 30  # seconds, of a Pod that names none

Key = tuple[str, str, str]  # resource, namespace, name
Event = tuple[int, str, str, Object]  # version, type, resource, object


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Store:
    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = self.forgotten = 1000  # events up to `forgotten` are gone
        self.objects: dict[Key, Object] = {}
        self.events: list[Event] = []
        self.after_change: list[Callable[[], None]] = []  # controllers, under the lock
        self.checks: dict[str, Callable[[Object], None]] = {}  # of new objects, by resource
        self.create("namespaces", "", {"metadata": {"name": "default"}})

    # Requests. Each returns a copy, and raises ApiError.

    def get(self, resource: str, namespace: str, name: str) -> Object:
        with self.changed:
            return copy.deepcopy(self.find(resource, namespace, name))

    def list(self, resource: str, namespace: str, labels: str, fields: str) -> Object:
        with self.changed:
            items = [
                copy.deepcopy(item)
                for key, item in sorted(self.objects.items())
                if key[0] == resource
                and namespace in ("", key[1])
                and matches_labels(item, labels)
                and matches_fields(item, fields)
            ]
            version = {"resourceVersion": str(self.version)}
            kind = KINDS[resource] + "List"
            return {"kind": kind, "apiVersion": "v1", "metadata": version, "items": items}

    def create(self, resource: str, namespace: str, item: Object) -> Object:
        item = copy.deepcopy(item)
        metadata = item.setdefault("metadata", {})
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        check_name(metadata.get("name"))
        if metadata.get("namespace", namespace) != namespace:
            raise ApiError(400, "the namespace of the object does not match that of the request")
        if resource in self.checks:
            self.checks[resource](item)
        with self.changed:
            if namespace and ("namespaces", "", namespace) not in self.objects:
                raise ApiError(404, f'namespaces "{namespace}" not found')
            key = (resource, namespace, metadata["name"])
            if key in self.objects:
                message = f'{resource} "{key[2]}" already exists'
                raise ApiError(409, message, "AlreadyExists")
            self.fill(resource, namespace, item)
            return copy.deepcopy(self.put("ADDED", key, item))

    def update(
        self,
        resource: str,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        subresource: str = "",
    ) -> Object:
        with self.changed:
            old = self.find(resource, namespace, name)
            item = put_status(old, change(copy.deepcopy(old)), subresource)
            metadata = item.setdefault("metadata", {})
            expected = metadata.get("resourceVersion", "")
            if expected and expected != old["metadata"]["resourceVersion"]:
                raise ApiError(
                    409,
                    f'Operation cannot be fulfilled on {resource} "{name}": the object has been '
                    "modified; please apply your changes to the latest version and try again",
                )
            for field in ("uid", "creationTimestamp", "name", "namespace"):
                if field in old["metadata"]:
                    metadata[field] = old["metadata"][field]
            metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
            if item != old:
                item = self.put("MODIFIED", (resource, namespace, name), item)
            return copy.deepcopy(item)

    def patch(
        self, resource: str, namespace: str, name: str, patch: Object, subresource: str
    ) -> Object:
        return self.update(resource, namespace, name, lambda old: merged(old, patch), subresource)

    def delete(self, resource: str, namespace: str, name: str, options: Object) -> Object:
        with self.changed:
            item = copy.deepcopy(self.find(resource, namespace, name))
            wanted = options.get("preconditions", {}).get("uid")
            if wanted not in (None, item["metadata"]["uid"]):
                raise ApiError(
                    409, f"Precondition failed: UID in precondition: {wanted}, UID in object meta"
                )
            if resource == "pods" and self.ends_slowly(item, options):
                return copy.deepcopy(item)
            self.remove((resource, namespace, name), options.get("propagationPolicy", ""))
            return copy.deepcopy(item)

    # Watches.

    def events_after(self, version: int, resource: str, namespace: str) -> list[Event]:
        """Those of the resource; ApiError 410 if some of them may be forgotten."""
        if version < self.forgotten:
            raise ApiError(410, f"too old resource version: {version} ({self.forgotten})")
        return [
            event
            for event in self.events
            if event[0] > version
            and event[2] == resource
            and namespace in ("", event[3]["metadata"].get("namespace", ""))
        ]

    def forget(self) -> None:
        """Drops the history: each watch from before now is answered by 410."""
        with self.changed:
            self.put(
                "MODIFIED", ("namespaces", "", "default"), self.find("namespaces", "", "default")
            )
            self.events.clear()
            self.forgotten = self.version
            self.changed.notify_all()

    # Under the lock.

    def find(self, resource: str, namespace: str, name: str) -> Object:
        found = self.objects.get((resource, namespace, name))
        if found is None:
            raise ApiError(404, f'{resource} "{name}" not found')
        return found

    def fill(self, resource: str, namespace: str, item: Object) -> None:
        item.update(kind=KINDS[resource], apiVersion=GROUPS.get(resource, "v1"))
        metadata = item["metadata"]
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=now())
        metadata.pop("deletionTimestamp", None)
        if namespace:
            metadata["namespace"] = namespace
        if resource == "pods":
            item["status"] = {"phase": "Pending"}
            item["spec"].setdefault("terminationGracePeriodSeconds", GRACE_PERIOD)
        if resource == "secrets":
            texts = item.pop("stringData", {})
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            item["data"] = {**item.get("data", {}), **encoded}

    def put(self, kind: str, key: Key, item: Object) -> Object:
        self.version += 1
        item = copy.deepcopy(item)
        item["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = item
        self.events.append((self.version, kind, key[0], item))
        for controller in self.after_change:
            controller()
        self.changed.notify_all()
        return item

    def ends_slowly(self, pod: Object, options: Object) -> bool:
        """Marks a Pod that a kubelet must end first; False if it may go at once."""
        metadata, spec = pod["metadata"], pod["spec"]
        grace = options.get("gracePeriodSeconds", spec["terminationGracePeriodSeconds"])
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if grace == 0 or not spec.get("nodeName") or ended:
            return False
        if metadata.get("deletionGracePeriodSeconds", grace + 1) > grace:
            metadata.setdefault("deletionTimestamp", now())
            metadata["deletionGracePeriodSeconds"] = grace
            self.put("MODIFIED", ("pods", metadata["namespace"], metadata["name"]), pod)
        return True

    def remove(self, key: Key, propagation: str) -> None:
        item = self.objects[key]
        self.put("DELETED", key, item)
        uid = item["metadata"]["uid"]
        for other, owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences", [])
            if other not in self.objects or uid not in [owner["uid"] for owner in owners]:
                continue
            if propagation == "Orphan":
                rest = [owner for owner in owners if owner["uid"] != uid]
                changed = copy.deepcopy(owned)
                changed["metadata"]["ownerReferences"] = rest
                self.put("MODIFIED", other, changed)
            elif len(owners) == 1:
                self.delete(*other, {})


def as_watch_event(event: Event, labels: str, fields: str) -> dict[str, Any] | None:
    """The event as a watch with these selectors gets it; None: it gets none."""
    _, kind, _, item = event
    if not (matches_labels(item, labels) and matches_fields(item, fields)):
        return None
    return {"type": kind, "object": item}
