"""A daemon whose runs are Pods, in a namespace of its own, on Nodes of test kubelets."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from tests.kubernetes.api import Api, Object
from tests.kubernetes.kubelet import Kubelet

from tests.conftest import Cluster, reserved_port, wait_until

NODES = 4
DEVICES = 2  # of each
NOW = {"gracePeriodSeconds": 0}
OWNED = ("pods", "configmaps", "secrets")


class PodCluster(Cluster):
    def __init__(self, folder: Path, api: Api) -> None:
        super().__init__(folder / "home")
        self.api = api
        self.folder = folder
        self.namespace = f"runs-{uuid.uuid4().hex[:8]}"
        api.create("namespaces", "", {"metadata": {"name": self.namespace}})
        prefix = uuid.uuid4().hex[:6]
        self.kubelets = {
            name: self.new_kubelet(name)
            for name in (f"{prefix}-{number}" for number in range(1, NODES + 1))
        }
        # Pods keep the address of the daemon.
        self.port_holder = reserved_port()
        self.port = self.port_holder.__enter__()

    def new_kubelet(self, name: str) -> Kubelet:
        devices = {"nvidia.com/gpu": str(DEVICES), "rdma/hca": "1"}
        return Kubelet(self.api, name, self.folder, devices).__enter__()

    def start(self, *more: str, engines: str = "k8s") -> None:
        words = ["--engine", engines, "--kubeconfig", str(self.api.kubeconfig)]
        words += ["--namespace", self.namespace, "--agent-image", "lockstep", "--image", "any"]
        self.ok("serve", *words, *more, "--port", str(self.port), "--detach")

    def pods(self, run: str) -> list[Object]:
        """Those of its attempts, in the order of their names."""
        listed = self.api.list("pods", self.namespace)["items"]
        return [pod for pod in listed if f":{run}." in node_of(pod)]

    def kubelet_of(self, pod: Object) -> Kubelet:
        return self.kubelets[pod["spec"]["nodeName"]]

    def objects(self) -> list[str]:
        """The names of all that the daemon has made."""
        found = []
        for resource in OWNED:
            items = self.api.list(resource, self.namespace, labelSelector="lockstep.dev/daemon")
            found += [f"{resource}/{item['metadata']['name']}" for item in items["items"]]
        return found

    def end(self) -> None:
        if (self.home / "daemon.json").exists():
            self.close()
        for kubelet in self.kubelets.values():
            kubelet.__exit__()
            self.api.delete("nodes", "", kubelet.node)
        self.port_holder.__exit__(None, None, None)

    def restart_node(self, name: str) -> None:
        """With a Node that was deleted, and is there again. Its Pods are removed, as the garbage
        collector of a real control plane does."""
        for pod in self.api.list("pods", self.namespace)["items"]:
            if pod["spec"].get("nodeName") == name:
                self.api.delete("pods", self.namespace, pod["metadata"]["name"], **NOW)
        self.kubelets[name] = self.new_kubelet(name)

        def takes_runs() -> bool:
            hosts = json.loads(self.ok("host", "ls", "--json"))["hosts"]
            return all(not host.get("unavailable") for host in hosts if host["id"] == name)

        wait_until(f"{name} takes runs", takes_runs)


def node_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get("lockstep.dev/node", ""))
