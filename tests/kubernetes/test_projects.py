"""Projects with a namespace, a service account and a user of their own."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api import Api
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.daemon import PodCluster
from tests.kubernetes.stub_server import StubServer

from tests.conftest import wait_until

USER = 2001
SLEEP = ("--", "sleep", "600")


class ProjectCluster(PodCluster):
    """The projects vision and speech have namespaces, and lost has one that does not exist."""

    def __init__(self, folder: Path, api: Api) -> None:
        super().__init__(folder, api)
        self.vision, self.speech = (f"{name}-{uuid.uuid4().hex[:6]}" for name in ("vi", "sp"))
        for name in (self.vision, self.speech):
            api.create("namespaces", "", {"metadata": {"name": name}})
        api.create("serviceaccounts", self.vision, {"metadata": {"name": "trainer"}})
        of_vision = {"namespace": self.vision, "service_account": "trainer", "run_as_user": USER}
        projects = {
            "vision": of_vision,
            "speech": {"namespace": self.speech},
            "lost": {"namespace": "not-there"},
            "default": {},
        }
        self.table = folder / "projects.yaml"
        self.table.write_text(yaml.safe_dump({"projects": projects, "refuse_others": True}))

    def start(self, *more: str, engines: str = "k8s") -> None:
        super().start("--project-namespaces", str(self.table), *more, engines=engines)

    def pods_in(self, namespace: str) -> list[str]:
        items = self.api.list("pods", namespace, labelSelector="lockstep.dev/daemon")["items"]
        return [pod["metadata"]["uid"] for pod in items]


@pytest.fixture(scope="module")
def served(api: Api) -> Iterator[ProjectCluster]:
    """In a folder that the user of a Pod may enter."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-projects-"))
    folder.chmod(0o711)
    cluster = ProjectCluster(folder, api)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder)


def test_pods_are_in_the_namespace_of_their_project_and_have_its_user(
    served: ProjectCluster,
) -> None:
    script = "id -u; id -G"
    run = served.submit("--project", "vision", "--nodes", "2", "--", "sh", "-c", script)
    view = served.ended(run)
    assert view["state"] == "succeeded", served.logs(run)
    lines = [line.split()[-1] for line in served.logs(run)]
    assert lines.count(str(USER)) >= 4, lines
    [pod, _] = served.api.list("pods", served.vision)["items"]
    assert pod["spec"]["serviceAccountName"] == "trainer"
    assert served.pods(run) == []


def test_a_restart_takes_up_the_runs_of_all_namespaces(served: ProjectCluster) -> None:
    script = "echo begin; sleep 3; echo end"
    runs = [
        served.submit("--project", project, "--", "sh", "-c", script)
        for project in ("vision", "speech", "default")
    ]
    for run in runs:
        served.running_ranks(run)
    served.kill_daemon()
    served.start()
    for run in runs:
        view = served.ended(run)
        assert (view["state"], len(view["attempts"])) == ("succeeded", 1), view


def test_a_stop_deletes_the_objects_of_the_project(served: ProjectCluster) -> None:
    run = served.submit("--project", "speech", *SLEEP)
    served.running_ranks(run)
    assert served.pods_in(served.speech)
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"
    wait_until("no Pod is left", lambda: not served.pods_in(served.speech))


def test_a_namespace_that_is_missing_is_the_reason_of_the_run(served: ProjectCluster) -> None:
    run = served.submit("--project", "lost", "--retries", "0", "--", "true")
    view = served.ended(run)
    assert view["state"] == "failed"
    assert 'namespaces "not-there" not found' in view["attempts"][0]["reason"]


def test_a_project_without_an_entry_is_refused(served: ProjectCluster) -> None:
    view = served.ended(served.submit("--project", "others", "--", "true"))
    assert view["state"] == "failed"
    assert "the project others has no namespace" in view["attempts"][0]["reason"]


def test_a_run_cannot_take_another_service_account(served: ProjectCluster, tmp_path: Path) -> None:
    spec = {"command": ["true"], "project": "vision", "kubernetes": {"service_account": "admin"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(spec))
    view = served.ended(served.submit(str(tmp_path / "run.yaml")))
    assert view["state"] == "failed"
    assert "have the service account trainer, got admin" in view["attempts"][0]["reason"]


def test_a_namespace_that_is_forbidden_keeps_its_runs(
    served: ProjectCluster, server: ControlPlane | StubServer
) -> None:
    if isinstance(server, ControlPlane):
        pytest.skip("the test's user may do everything on the real control plane")
    running = served.submit("--project", "speech", *SLEEP)
    served.running_ranks(running)
    served.ok("serve", "--stop")
    server.listener.forbidden.add(served.speech)
    try:
        served.start()
        waiting = served.submit("--project", "speech", *SLEEP)
        wait_until("the reason", lambda: "is forbidden" in served.ok("why", waiting))
        other = served.submit("--project", "default", "--", "true")
        assert served.ended(other)["state"] == "succeeded"
        assert served.show(running)["state"] == "running"
    finally:
        server.listener.forbidden.clear()
    served.running_ranks(waiting)
    assert len(served.show(running)["attempts"]) == 1
    served.ok("stop", running, waiting)
