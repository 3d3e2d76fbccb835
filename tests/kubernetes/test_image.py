"""The image of the daemon, as `./dev check kubernetes` builds it by tools/kubernetes/image: it runs
in containers without a network of their own, and needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.api import Api

from tests.conftest import PATIENCE, ROOT

SCRIPT = ROOT / "tools/kubernetes/image"
BASE = "docker.io/library/debian:12-slim"  # an image of a user, with nothing of Lockstep

Run = Callable[..., str]


def buildah(*words: str) -> str:
    folder = os.environ.get("LOCKSTEP_IMAGE", "")
    if not folder:
        pytest.skip("needs the image: ./dev check kubernetes")
    done = subprocess.run(
        [str(SCRIPT), "call", folder, *words],
        text=True,
        capture_output=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def run_in() -> Iterator[Run]:
    """Runs a script in a new container of an image; a folder of this machine is /shared there."""
    made = []

    def run(image: str, script: str, folder: Path, *options: str) -> str:
        made.append(buildah("from", "--pull-never", image).strip())
        volume = f"{folder}:/shared"
        return buildah("run", "--volume", volume, *options, made[-1], "--", "sh", "-ec", script)

    yield run
    for container in made:
        buildah("rm", container)


def test_a_daemon_of_the_image_runs_without_root(run_in: Run, tmp_path: Path) -> None:
    script = """
        id -u
        lockstep version
        export LOCKSTEP_HOME=/tmp/home
        lockstep serve --hosts 1x2 --detach
        lockstep run -g 2 --timeout 1m -- sh -c 'echo hello from rank $RANK'
        lockstep serve --stop
    """
    told = run_in("lockstep:check", script, tmp_path)
    assert told.startswith("1000\n")
    assert "hello from rank 0" in told and "hello from rank 1" in told


def test_the_image_has_what_calls_of_kubernetes_need(run_in: Run, api: Api, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(
        api.kubeconfig.read_text().replace(str(api.kubeconfig.parent), "/shared")
    )
    for certificate in api.kubeconfig.parent.glob("*.pem"):
        (tmp_path / certificate.name).write_text(certificate.read_text())
    tmp_path.chmod(0o755)  # for the image's user
    script = "lockstep k8s check --kubeconfig /shared/kubeconfig"
    told = run_in("lockstep:check", script, tmp_path)
    assert "rights     all that a daemon needs" in told, told


def test_the_agent_of_the_image_runs_in_an_image_that_lacks_it(run_in: Run, tmp_path: Path) -> None:
    copy = "lockstep agent --copy-to /shared/program"
    run_in("lockstep:check", copy, tmp_path, "--user", "root")
    told = run_in(BASE, "/shared/program/bin/lockstep version", tmp_path)
    assert "lockstep" in told
