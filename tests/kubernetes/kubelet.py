"""A kubelet for tests: registers a Node at any API server, and runs the Pods that are bound to it.

    with Kubelet(api, "node-1", folder, {"nvidia.com/gpu": "8"}) as kubelet:

Containers are processes of this machine (container.py). It binds no Pod: that is the scheduler's
part. `lose_power` ends everything without a word, as a machine does that dies.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from tests.kubernetes.api import Api, Object, Refused
from tests.kubernetes.pod_worker import PodWorker, now

HEARTBEAT_INTERVAL = 5.0  # seconds; the controller manager waits for 40
RETRY_INTERVAL = 0.2
CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}


class Kubelet:
    def __init__(self, api: Api, node: str, folder: Path, devices: dict[str, str]) -> None:
        self.api = api
        self.node = node
        self.folder = folder / node
        self.capacity = {**CAPACITY, **devices}
        self.workers: dict[str, PodWorker] = {}  # by the Pod's UID
        self.is_ending = threading.Event()
        self.threads = [
            threading.Thread(target=self.follow_pods, daemon=True),
            threading.Thread(target=self.send_heartbeats, daemon=True),
        ]

    def __enter__(self) -> Kubelet:
        self.register()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_ending.is_set():
            self.lose_power()

    def lose_power(self) -> None:
        self.is_ending.set()
        for worker in list(self.workers.values()):
            worker.abandon()
        self.threads[1].join()

    def worker(self, name: str) -> PodWorker:
        """The worker of the newest Pod of this name."""
        return [each for each in self.workers.values() if each.name == name][-1]

    def log(self, pod: str, container: str) -> str:
        return (self.worker(pod).folder / f"{container}.log").read_text()

    # The Node.

    def register(self) -> None:
        node: Object = {
            "metadata": {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}},
            "status": self.status(),
        }
        try:
            self.api.create("nodes", "", node)
        except Refused as refused:
            if refused.code != 409:
                raise
        self.beat()

    def status(self) -> Object:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        moments = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        return {
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "conditions": [{**ready, **moments}],
            "addresses": [{"type": "Hostname", "address": self.node}],
        }

    def beat(self) -> None:
        self.api.patch("nodes", "", self.node, {"status": self.status()}, "status")

    def send_heartbeats(self) -> None:
        while not self.is_ending.wait(HEARTBEAT_INTERVAL):
            with contextlib.suppress(Refused, OSError):
                self.beat()

    # Its Pods.

    def follow_pods(self) -> None:
        """A list, then a watch from its version; again after whatever fails."""
        while not self.is_ending.is_set():
            try:
                self.list_and_watch()
            except (Refused, OSError):
                time.sleep(RETRY_INTERVAL)

    def list_and_watch(self) -> None:
        mine = f"spec.nodeName={self.node}"
        listed = self.api.list("pods", fieldSelector=mine)
        uids = set()
        for pod in listed["items"]:
            uids.add(pod["metadata"]["uid"])
            self.take(pod)
        for uid in set(self.workers) - uids:
            self.drop(uid)
        version = listed["metadata"]["resourceVersion"]
        options = {"resourceVersion": version, "timeoutSeconds": "30"}
        for event in self.api.watch("pods", fieldSelector=mine, **options):
            if self.is_ending.is_set():
                return
            if event["type"] == "ERROR":
                return
            if event["type"] == "DELETED":
                self.drop(event["object"]["metadata"]["uid"])
            else:
                self.take(event["object"])

    def take(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.workers:
            self.workers[uid].update(pod)
        elif pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            self.workers[uid] = PodWorker(self.api, pod, self.folder / uid)

    def drop(self, uid: str) -> None:
        """The object is gone: whatever is left of the Pod ends at once."""
        if worker := self.workers.get(uid):
            worker.abandon()
