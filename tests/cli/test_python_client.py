"""lockstep.runs and lockstep.run against a real daemon, on loopback and over HTTPS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BUILD, PATIENCE, Cluster, Laptop

PROGRAM = """
import lockstep
for step in range(5):
    lockstep.log({"loss": 2.0 ** -step, "odd": float("nan")}, step=step)
print("done")
"""


def python(cluster: Cluster, code: str) -> Any:
    """The JSON that a program of the user prints."""
    environment = cluster.environment | {"PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def logged_run(cluster: Cluster, tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = (
        "--name",
        "first",
        "-g",
        "2",
        "--",
        "python",
        str(tmp_path / "train.py"),
        "--lr",
        "3",
    )
    run = cluster.submit(*command)
    assert cluster.ended(run)["state"] == "succeeded"
    return run


def test_a_notebook_reads_runs_metrics_lines_and_files(cluster: Cluster, tmp_path: Path) -> None:
    run = logged_run(cluster, tmp_path)
    shown = python(
        cluster,
        f"""
import json, lockstep
[found] = lockstep.runs(project="default", state="succeeded", user=lockstep.run("{run}").user)
frame = found.metrics("loss", rank=1)
print(json.dumps({{
    "id": found.id,
    "name": found.name,
    "params": found.params,
    "results": sorted(found.results),
    "values": frame["value"].tolist(),
    "steps": frame["step"].tolist(),
    "attempts": frame["attempt"].tolist(),
    "ranks": sorted(set(found.metrics("loss")["rank"].tolist())),
    "nan": int(found.metrics("odd")["value"].isna().sum()),
    "lines": sorted(line.text for line in found.logs() if line.text == "done"),
    "written": found.export("loss", "{tmp_path}/loss.csv"),
    "curves": lockstep.curves("loss", [found], x="odd").values.tolist()
    + lockstep.curves("loss", project="default", pixels=1).values.tolist(),
}}))
""",
    )
    assert shown == {
        "id": run,
        "name": "first",
        "params": {"lr": 3},
        "results": ["loss", "odd"],
        "values": [1.0, 0.5, 0.25, 0.125, 0.0625],
        "steps": [0, 1, 2, 3, 4],
        "attempts": [1, 1, 1, 1, 1],
        "ranks": [0, 1],
        "nan": 10,
        "lines": ["done", "done"],
        "written": 10,
        "curves": [[run, 0.0, 1.0], [run, 4.0, 0.0625]],
    }
    assert len((tmp_path / "loss.csv").read_text().splitlines()) == 11


def test_a_run_that_is_not_there_is_the_daemons_own_message(cluster: Cluster) -> None:
    code = """
import json, lockstep
try:
    lockstep.run("demo/99")
except lockstep.DaemonError as error:
    print(json.dumps([error.code, str(error)]))
"""
    code, message = python(cluster, code)
    assert code == "not_found"
    assert "demo/99" in message


def test_a_daemon_is_trusted_by_its_fingerprint_and_no_other(
    idle: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    idle.serve("1x1", "--name", "localhost", "--listen", "0.0.0.0")
    (tmp_path / "token").write_text(idle.token())
    fingerprint = idle.url().partition("#")[2]
    url = f"https://localhost:{idle.daemon_port()}#{fingerprint}"
    assert fingerprint.startswith("sha256:")
    laptop.environment |= {"LOCKSTEP_URL": url, "LOCKSTEP_TOKEN_FILE": str(tmp_path / "token")}
    assert python(laptop, "import lockstep; print(len(lockstep.runs()))") == 0
    laptop.environment["LOCKSTEP_URL"] = url[:-1] + ("1" if url[-1] == "0" else "0")
    code = """
import json, lockstep
try:
    lockstep.runs()
except lockstep.DaemonError as error:
    print(json.dumps(str(error)))
"""
    assert "has another certificate" in python(laptop, code)
    laptop.environment["LOCKSTEP_URL"] = url.partition("#")[0]
    assert "is not trusted" in python(laptop, code)


def test_a_script_for_wandb_runs_unchanged_in_its_place(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import wandb
run = wandb.init(project="cats", config={"lr": 0.5})
for step in range(3):
    wandb.log({"loss": 1 / (step + 1)})
print(run.id, wandb.__version__)
""")
    script = str(tmp_path / "train.py")
    run = cluster.submit("--wandb", "--", "python", script)
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    shown = python(
        cluster,
        f"""
import json, lockstep
run = lockstep.run("{run}")
print(json.dumps([run.metrics("loss")["value"].tolist(), run.params]))
""",
    )
    assert shown == [[1.0, 0.5, 1 / 3], {"lr": 0.5}]
    assert any(run.replace("/", "-") in line for line in cluster.logs(run))
    # Without the option the script finds no such module, or the real one.
    without = cluster.submit("--", "python", "-c", "import os; print(os.environ.get('PYTHONPATH'))")
    cluster.ended(without)
    assert not any("stand-ins" in line for line in cluster.logs(without))


def test_ranks_without_the_package_are_told_to_install_it(cluster: Cluster) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs a Python without the package, /usr/bin/python3")
    alone = ("/usr/bin/python3", "-c", "import wandb")
    run = cluster.submit("--wandb", "--env", "PYTHONPATH=", "--", *alone)
    assert cluster.ended(run)["state"] == "failed"
    assert any("needs the Python package lockstep" in line for line in cluster.logs(run))
