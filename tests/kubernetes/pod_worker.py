"""One Pod on its Node: starts its containers one after the other, and reports its status."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Api, Object, Refused
from tests.kubernetes.container import NEVER_PULLED, CannotStart, Container, Volumes

LOOK_INTERVAL = 0.05  # seconds
RETRY_INTERVAL = 0.3
GIVE_UP_AFTER = 60.0  # of an API server that does not answer


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class PodWorker:
    """`update` passes on what the API server tells of the Pod. It ends when the Pod is deleted, or
    when `abandon` is called."""

    def __init__(self, api: Api, pod: Object, folder: Path) -> None:
        self.api = api
        self.pod = pod
        self.namespace, self.name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.containers: dict[str, Container] = {}
        self.terminated: dict[str, Object] = {}  # states of containers that have ended
        self.waiting: dict[str, Object] = {}
        self.warned: set[str] = set()
        self.started = now()
        self.birth = time.monotonic()
        self.changed = threading.Event()
        self.is_abandoned = False
        self.forced_end: Object = {}  # reason and message of a Pod that is ended from outside
        self.is_oom = False
        self.has_ended = False  # the containers: nothing more has to stop
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # From other threads.

    def update(self, pod: Object) -> None:
        self.pod = pod
        self.changed.set()

    def evict(self, message: str) -> None:
        self.forced_end = {"reason": "Evicted", "message": message}
        self.changed.set()

    def kill_for_memory(self) -> None:
        self.is_oom = True
        self.changed.set()

    def abandon(self) -> None:
        """Its node has lost power: the processes are gone, and no status tells it."""
        self.is_abandoned = True
        self.changed.set()
        self.thread.join()

    # In the thread.

    def run(self) -> None:
        try:
            self.live()
        except (Refused, OSError) as error:
            if not self.is_abandoned:
                (self.folder / "kubelet.log").write_text(f"gave up: {error!r}\n")
        finally:
            for container in self.containers.values():
                container.kill()

    def live(self) -> None:
        specs = self.pod["spec"]
        try:
            volumes = self.make_volumes()
            ended_well = all(
                self.run_containers([spec], volumes) for spec in specs.get("initContainers", [])
            ) and self.run_containers(specs["containers"], volumes)
        except Stopped:
            ended_well = False
        if self.is_abandoned:
            return
        self.end_containers()
        self.has_ended = True
        self.report("Succeeded" if ended_well else "Failed")
        while not self.is_deleted():
            if self.is_abandoned:
                return
            self.wait()
        self.remove()

    def make_volumes(self) -> Volumes:
        """Waits for Secrets and ConfigMaps that do not exist yet, as a kubelet does."""
        while True:
            try:
                return Volumes(self.api, self.pod, self.folder / "volumes")
            except Refused as refused:
                if refused.code != 404:
                    raise
                self.wait_all("ContainerCreating", "")
                self.warn("FailedMount", f"MountVolume.SetUp failed for a volume : {refused.said}")
            except CannotStart as why:
                self.wait_all(why.reason, str(why))
            self.wait(RETRY_INTERVAL)

    def wait_all(self, reason: str, message: str) -> None:
        waiting = {"reason": reason, **({"message": message} if message else {})}
        names = [spec["name"] for spec in self.pod["spec"]["containers"]]
        if self.waiting != dict.fromkeys(names, waiting):
            self.waiting = dict.fromkeys(names, waiting)
            self.report("Pending")

    def warn(self, reason: str, message: str) -> None:
        """An Event of the Pod, each one once; a real kubelet counts the repetitions."""
        if message in self.warned:
            return
        self.warned.add(message)
        metadata = self.pod["metadata"]
        names = {key: metadata[key] for key in ("name", "namespace", "uid")}
        event = {
            "metadata": {"generateName": f"{self.name}."},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", **names},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet"},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
        }
        self.insist(lambda: self.api.create("events", self.namespace, event))

    def run_containers(self, specs: list[Object], volumes: Volumes) -> bool:
        """True when all have ended with 0."""
        for spec in specs:
            self.pull(spec)
            name = spec["name"]
            container = Container(self.pod, spec, volumes, self.folder / f"{name}.log")
            self.containers[name] = container
            self.waiting.pop(name, None)
            try:
                container.start()
            except CannotStart as why:
                self.terminated[name] = self.end_of(128, why.reason, str(why))
                return False
        is_init = specs[0] not in self.pod["spec"]["containers"]
        self.report("Pending" if is_init else "Running")
        while not all(self.collect(spec["name"]) for spec in specs):
            if self.is_oom and not is_init:
                self.containers[specs[0]["name"]].kill()
                self.terminated[specs[0]["name"]] = self.end_of(137, "OOMKilled")
            self.wait()
        return all(self.terminated[spec["name"]]["exitCode"] == 0 for spec in specs)

    def pull(self, spec: Object) -> None:
        while spec["image"].startswith(NEVER_PULLED):
            self.wait_all("ImagePullBackOff", f'Back-off pulling image "{spec["image"]}"')
            self.wait()

    def collect(self, name: str) -> bool:
        """True when the container has ended."""
        code = self.containers[name].exit_code()
        if name not in self.terminated and code is not None:
            self.terminated[name] = self.end_of(code, "Completed" if code == 0 else "Error")
        return name in self.terminated

    def end_of(self, code: int, reason: str, message: str = "") -> Object:
        end = {"exitCode": code, "reason": reason, "startedAt": self.started, "finishedAt": now()}
        return {**end, "message": message} if message else end

    def wait(self, seconds: float = LOOK_INTERVAL) -> None:
        """Until something may have changed; Stopped if the containers must end."""
        self.changed.wait(seconds)
        self.changed.clear()
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        age = time.monotonic() - self.birth
        if self.has_ended:
            return
        if deadline is not None and age > deadline and not self.forced_end:
            message = "Pod was active on the node longer than the specified deadline"
            self.forced_end = {"reason": "DeadlineExceeded", "message": message}
        if self.is_abandoned or self.is_deleted() or self.forced_end:
            raise Stopped

    def is_deleted(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    def end_containers(self) -> None:
        """SIGTERM, and SIGKILL after the grace period, which a second DELETE may shorten."""
        for container in self.containers.values():
            container.signal(signal.SIGTERM)
        begin = time.monotonic()
        while not self.is_abandoned and not all(map(self.collect, self.containers)):
            if time.monotonic() - begin > self.grace_period():
                break
            self.changed.wait(LOOK_INTERVAL)
            self.changed.clear()
        for name, container in self.containers.items():
            container.kill()
            self.collect(name)

    def grace_period(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        default = spec.get("terminationGracePeriodSeconds", 30)
        return float(metadata.get("deletionGracePeriodSeconds", default))

    # The status.

    def report(self, phase: str) -> None:
        specs = self.pod["spec"]
        status: Object = {
            "phase": phase,
            "startTime": self.started,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "conditions": self.conditions(phase),
            "containerStatuses": [self.status_of(spec) for spec in specs["containers"]],
            **self.forced_end,
        }
        if specs.get("initContainers"):
            status["initContainerStatuses"] = [self.status_of(s) for s in specs["initContainers"]]
        self.insist(
            lambda: self.api.patch("pods", self.namespace, self.name, {"status": status}, "status")
        )

    def conditions(self, phase: str) -> list[Object]:
        def condition(kind: str, holds: bool) -> Object:
            return {"type": kind, "status": str(holds), "lastTransitionTime": now()}

        is_running = phase == "Running"
        return [
            condition("Initialized", phase != "Pending"),
            condition("Ready", is_running),
            condition("ContainersReady", is_running),
            condition("PodScheduled", True),
        ]

    def status_of(self, spec: Object) -> Object:
        name = spec["name"]
        if end := self.terminated.get(name):
            state: Object = {"terminated": end}
        elif name in self.containers and self.containers[name].process:
            state = {"running": {"startedAt": self.started}}
        else:
            state = {"waiting": self.waiting.get(name, {"reason": "PodInitializing"})}
        return {
            "name": name,
            "image": spec["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": "running" in state,
            "state": state,
        }

    def remove(self) -> None:
        precondition = {"uid": self.pod["metadata"]["uid"]}
        self.insist(
            lambda: self.api.delete(
                "pods", self.namespace, self.name, gracePeriodSeconds=0, preconditions=precondition
            )
        )

    def insist(self, call: Any) -> None:
        """Repeats it while the API server fails; an object that is gone is fine."""
        end = time.monotonic() + GIVE_UP_AFTER
        while not self.is_abandoned:
            try:
                call()
                return
            except (Refused, OSError) as error:
                if isinstance(error, Refused) and error.code in (404, 409):
                    return
                if time.monotonic() > end:
                    raise
                time.sleep(RETRY_INTERVAL)


class Stopped(Exception):
    """The containers must end before their own end."""
