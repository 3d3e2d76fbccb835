"""On the real control plane: Lockstep's engine against plain Pods. Both have the test kubelets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.kubernetes.api import Api
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.daemon import PodCluster
from tests.kubernetes.objects import is_gone, phase_of, pod

from _engines.start import NODES, RANK, RANKS, compare
from tests.conftest import ROOT

FOLDER = ROOT / "build/kubernetes"
REST = 1.0


class Gang:
    def __init__(self, cluster: PodCluster) -> None:
        self.cluster = cluster
        self.turn = 0

    def ours(self, stamps: Path) -> Callable[[], bool]:
        size = ["-n", str(NODES), "-g", str(RANKS), "--env", f"STAMPS={stamps}"]
        run = self.cluster.submit(*size, "--", "sh", "-c", RANK + 'stamp "$RANK"')
        return lambda: bool(self.cluster.show(run)["ended"]) and not self.cluster.pods(run)

    def peer(self, stamps: Path) -> Callable[[], bool]:
        self.turn += 1
        api, namespace = self.cluster.api, self.cluster.namespace
        names = [f"plain-{self.turn}-{index}" for index in range(NODES)]
        for index, (name, node) in enumerate(zip(names, self.cluster.kubelets, strict=True)):
            ranks = range(index * RANKS, (index + 1) * RANKS)
            script = RANK + " ".join(f"stamp {rank} &" for rank in ranks) + " wait"
            env = [{"name": "STAMPS", "value": str(stamps)}]
            container = {"env": env, "resources": {"limits": {"nvidia.com/gpu": str(RANKS)}}}
            plain = pod(name, "sh", "-c", script, node=node, container=container)
            api.create("pods", namespace, plain)

        def has_ended() -> bool:
            if any(phase_of(api, namespace, name) != "Succeeded" for name in names):
                return False
            for name in names:
                api.delete("pods", namespace, name, gracePeriodSeconds=0)
            return all(is_gone(api, "pods", namespace, name) for name in names)

        return has_ended


def compare_with_plain_pods(rounds: int) -> None:
    if not (FOLDER / "bin/kubectl").exists():
        print("no control plane is built: ./dev check kubernetes builds it", file=sys.stderr)
        return
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name,
        ControlPlane(FOLDER) as plane,
    ):
        folder = Path(name)
        cluster = PodCluster(folder, Api(plane.kubeconfig))
        try:
            cluster.start()
            gang = Gang(cluster)
            compare("kubernetes", "plain Pods", gang.ours, gang.peer, folder, rounds, REST)
        finally:
            cluster.end()
