"""Jobs of other users, which the daemon of root submits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.slurm.conftest import SlurmCluster
from tests.slurm.testbed import make_folder

from tests.conftest import PATIENCE

FOLDER = Path("/etc/lockstep")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """The daemon of the test has it as /etc/lockstep/users; no other process sees it."""
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "users").write_text("nobody\n")
    return folder / "users"


@pytest.fixture
def open_to_all(users: Path, waiting: SlurmCluster) -> Iterator[SlurmCluster]:
    waiting.shared = make_folder()
    FOLDER.mkdir(exist_ok=True)
    mount = f'mount --bind "$0" {FOLDER} && exec "$@"'
    waiting.within = ["unshare", "--mount", "sh", "-c", mount, str(users.parent)]
    waiting.start()
    waiting.ok("user", "add", "nobody")
    yield waiting
    waiting.close()
    shutil.rmtree(waiting.shared)


def submit_as(cluster: SlurmCluster, user: str, command: list[str]) -> str:
    token = cluster.ok("token", "create", "--user", user).strip()
    url = json.loads((cluster.home / "daemon.json").read_text())["url"]
    spec = {"command": command, "working_folder": "/", "rank_loss_retries": 0}
    body = {"spec": spec}
    request = Request(
        f"{url}/api/v1/runs",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        },
    )
    with urlopen(request, timeout=PATIENCE) as answer:
        return str(json.load(answer)["id"])


def test_a_job_belongs_to_the_user_who_submitted_the_run(
    open_to_all: SlurmCluster,
) -> None:
    script = "id -un; echo $HOME; touch $LOCKSTEP_CHECKPOINT_DIR/written"
    run = submit_as(open_to_all, "nobody", ["/bin/sh", "-c", script])
    view = open_to_all.ended(run)
    assert view["state"] == "succeeded", view
    lines = "\n".join(open_to_all.logs(run))
    assert "nobody" in lines
    assert "/nonexistent" in lines
    (job,) = open_to_all.jobs("all")
    owner = open_to_all.slurm.ok("squeue", "-h", "-t", "all", "-j", job, "-o", "%u").strip()
    assert owner == "nobody"


def test_a_user_whom_the_file_does_not_name_starts_no_job(
    users: Path, open_to_all: SlurmCluster
) -> None:
    users.write_text("# none\n")
    run = submit_as(open_to_all, "nobody", ["/bin/true"])
    view = open_to_all.ended(run)
    assert view["state"] == "failed"
    assert "add a line 'nobody' to /etc/lockstep/users" in view["reason"]
    assert not open_to_all.jobs("all")
