"""The real control plane of tools/kubernetes/control_plane as a context."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

from tests.kubernetes.api import Object

from tests.conftest import ROOT

SCRIPT = ROOT / "tools/kubernetes/control_plane"


class ControlPlane:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> ControlPlane:
        self.process = subprocess.Popen(
            [SCRIPT, "run", self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        ready = self.process.stdout.readline().strip()  # the script bounds this wait
        assert ready, "the control plane did not start; its error is above"
        self.kubeconfig = Path(ready)
        return self

    def forget(self) -> None:
        """Compacts etcd: watches of Services from before now are answered by 410."""
        revision = self.etcd("range", {"key": "AA=="})["header"]["revision"]
        self.etcd("compaction", {"revision": revision, "physical": True})

    def etcd(self, what: str, body: Object) -> Object:
        url = (self.folder / "run/etcd-url").read_text().strip()
        request = Request(f"{url}/v3/kv/{what}", json.dumps(body).encode())
        with urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)
