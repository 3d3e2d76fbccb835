"""Runs in a venv, a conda environment, modules and images, and hosts that lack them."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import BUILD, Cluster, is_alive, wait_until

SUM = BUILD / "bin" / "sum"
PREFIX = "import sys; print(sys.prefix)"


def lines(cluster: Cluster, run: str) -> set[str]:
    return {line.split("] ", 1)[-1] for line in cluster.logs(run)}


def only_attempt_failed(cluster: Cluster, run: str) -> str:
    """The reason of a run that failed in its first attempt, before any rank started."""
    view = cluster.ended(run)
    assert view["state"] == "failed"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["launch_failed"]
    assert not any(node["ranks"] for node in view["attempts"][0]["nodes"])
    assert view["losses"] == 0
    return str(view["reason"])


def test_ranks_run_in_the_venv_that_the_run_file_names(cluster: Cluster, tmp_path: Path) -> None:
    subprocess.run(["python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    file = tmp_path / "run.yaml"
    file.write_text(f'venv: venv\nnodes: 2\ncommand: [python, -c, "{PREFIX}"]\n')
    run = cluster.submit(str(file))
    assert cluster.ended(run)["state"] == "succeeded"
    assert lines(cluster, run) == {str(tmp_path / "venv")}
    assert f"environment venv {tmp_path}/venv\n" in cluster.ok("show", run)


def test_a_venv_that_is_none_is_refused_before_the_run_is_queued(cluster: Cluster) -> None:
    done = cluster.command("run", "--venv", "/no/venv", "--", "python")
    assert done.returncode == 2
    assert "venv: /no/venv is no venv" in done.stderr


def test_a_venv_that_goes_before_the_start_ends_the_run_with_its_name(
    cluster: Cluster, tmp_path: Path
) -> None:
    subprocess.run(["python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    first = cluster.submit("-n", "2", "-g", "2", "--", "sleep", "1000")
    cluster.running_ranks(first)
    run = cluster.submit("--venv", str(tmp_path / "venv"), "--", "python", "x.py")
    shutil.rmtree(tmp_path / "venv")
    cluster.ok("stop", first)
    assert f"venv: there is no folder {tmp_path}/venv" in only_attempt_failed(cluster, run)


def test_ranks_run_in_a_conda_environment_by_its_name(cluster: Cluster, tmp_path: Path) -> None:
    prefix = tmp_path / "envs" / "train"
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").write_text(
        '#!/bin/sh\necho "$CONDA_PREFIX of $CONDA_DEFAULT_ENV"\n'
    )
    (prefix / "bin" / "python").chmod(0o755)
    known = f"CONDA_ENVS_DIRS={tmp_path}/envs"
    run = cluster.submit("-n", "2", "--conda", "train", "--env", known, "--", "python", "x.py")
    assert cluster.ended(run)["state"] == "succeeded"
    assert lines(cluster, run) == {f"{prefix} of train"}


def test_an_environment_that_a_host_lacks_ends_the_run_at_once_and_names_the_host(
    cluster: Cluster,
) -> None:
    run = cluster.submit("-n", "2", "--conda", "no-such-environment", "--", "python", "x.py")
    reason = only_attempt_failed(cluster, run)
    hosts = {node["host"] for node in cluster.show(run)["attempts"][0]["nodes"]}
    assert any(f"on host {host} could not start its ranks" in reason for host in hosts)
    assert "this host has no environment 'no-such-environment'" in reason
    assert "conda create --name no-such-environment" in reason


@pytest.fixture
def modules(tmp_path: Path) -> list[str]:
    """Options with which a run finds a module of this test."""
    found = subprocess.run(
        ["bash", "-lc", "type module"], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip("no `module`: install environment-modules")
    (tmp_path / "modules" / "cuda").mkdir(parents=True)
    (tmp_path / "modules" / "cuda" / "12.4").write_text(
        "#%Module\nsetenv CUDA_HOME /opt/cuda-12.4\nprepend-path PATH /opt/cuda-12.4/bin\n"
    )
    return ["--env", f"MODULEPATH={tmp_path}/modules"]


def test_ranks_have_the_modules_of_the_run(cluster: Cluster, modules: list[str]) -> None:
    show = "echo $CUDA_HOME $LOADEDMODULES ${PATH%%:*} $COLOR"
    run = cluster.submit(
        *modules, "--env", "COLOR=blue", "--module", "cuda/12.4", "--", "sh", "-c", show
    )
    assert cluster.ended(run)["state"] == "succeeded"
    assert lines(cluster, run) == {"/opt/cuda-12.4 cuda/12.4 /opt/cuda-12.4/bin blue"}


def test_a_module_that_is_missing_is_named(cluster: Cluster, modules: list[str]) -> None:
    run = cluster.submit(*modules, "--module", "cuda/99", "--", "true")
    reason = only_attempt_failed(cluster, run)
    assert "`module load cuda/99` failed" in reason
    assert "Unable to locate a modulefile for 'cuda/99'" in reason or "unknown" in reason


# --- Images of Podman ---

IMAGE = "localhost/lockstep-test:1"


class Podman:
    """Podman with a store of its own, and an image whose programs are those of this machine: its
    /bin and /lib lead into /usr, which runs mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "bin" / "podman"
        self.program.parent.mkdir(parents=True)
        # Containers may lack the right to raise limits, as this test's machine itself may be one.
        self.program.write_text(
            "#!/bin/sh\n"
            '[ "$1" != run ] || { shift; set -- run --ulimit=nofile=1024:1024'
            ' --ulimit=nproc=1024:1024 "$@"; }\n'
            f"exec {shutil.which('podman')} --root {folder}/root --runroot {folder}/runroot"
            ' --cgroup-manager=cgroupfs "$@"\n'
        )
        self.program.chmod(0o755)
        # crun refuses the mixed cgroups that some machines have; without the second kind it works.
        self.within = [
            "unshare", "--mount", "sh", "-c",
            'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh",
        ]  # fmt: skip

    def command(self, *words: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.within, self.program, *words],
            input=data,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def containers(self) -> str:
        done = self.command("ps", "--all", "--format", "{{.Names}}")
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


def image_files() -> bytes:
    """An archive of the image's files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for name, mode in (("usr", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        file = tarfile.TarInfo("etc/image")
        file.size = len(b"inside\n")
        archive.addfile(file, io.BytesIO(b"inside\n"))
    return made.getvalue()


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if not shutil.which("podman"):
        pytest.skip("no podman: install podman and crun")
    if os.geteuid() != 0:
        pytest.skip("the image of this test needs root")
    # Podman takes no path above 50 characters.
    with tempfile.TemporaryDirectory(prefix="podman-", dir="/tmp") as folder:
        yield from with_image(Podman(Path(folder)))


def with_image(made: Podman) -> Iterator[Podman]:
    imported = made.command("import", "-", IMAGE, data=image_files())
    assert imported.returncode == 0, imported.stderr
    mount = "--mount=type=bind,source=/usr,destination=/usr"
    tried = made.command("run", "--rm", "--network=host", "--pid=host", mount, IMAGE, "/bin/true")
    if tried.returncode != 0:
        pytest.skip(f"podman starts no container here: {tried.stderr.decode()}")
    yield made
    made.command("rm", "--all", "--force")


@pytest.fixture
def hosts(idle: Cluster, podman: Podman) -> Cluster:
    """Two hosts whose agents find that Podman."""
    idle.environment["PATH"] = f"{podman.program.parent}:{idle.environment['PATH']}"
    idle.within = podman.within
    idle.serve()
    idle.within = []
    return idle


def in_image(*words: str) -> list[str]:
    return ["--image", IMAGE, "--mount", "/usr", "--mount", str(BUILD), *words]


RANK = f"""
import os, socket, subprocess, sys

subprocess.run(["{SUM}"], check=True)
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["LOCKSTEP_REPORT"])
agent.sendall(b'{{"kind":"metrics","step":1,"time_us":1,"values":{{"loss":2.5}}}}\\n')
print(open("/etc/image").read().strip())
open("made." + os.environ["RANK"], "w").write(os.environ["COLOR"])
sys.exit(5 if os.environ["RANK"] == "3" else 0)
"""


def test_ranks_in_an_image_are_processes_like_others(
    hosts: Cluster, podman: Podman, tmp_path: Path
) -> None:
    """They meet, report to their agent, write their files, and keep their exit codes."""
    (tmp_path / "train.py").write_text(RANK)
    options = in_image("-n", "2", "-g", "2", "--env", "COLOR=blue")
    run = hosts.ok("run", "-d", *options, "--", "python3", "train.py", cwd=tmp_path).strip()
    reason = hosts.ended(run)["reason"]
    assert "rank 3" in reason and "exited with code 5" in reason
    assert {"4 ranks: 1 + ... + 4 = 10", "inside"} <= lines(hosts, run)
    assert [(tmp_path / f"made.{rank}").read_text() for rank in range(4)] == ["blue"] * 4
    assert json.loads(hosts.ok("metrics", run, "--name", "loss", "--json"))["series"]
    wait_until("no container is left", lambda: not podman.containers())


def test_ranks_and_containers_end_with_their_agent(hosts: Cluster, podman: Podman) -> None:
    run = hosts.submit(*in_image("--rank-loss-retries", "0"), "--", "sleep", "1000")
    rank = hosts.running_ranks(run)[0]["pid"]
    agent = hosts.show(run)["attempts"][0]["nodes"][0]["agent_pid"]
    assert Path(f"/proc/{rank}/root/etc/image").read_text() == "inside\n"
    assert (int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])) == agent
    os.kill(agent, signal.SIGKILL)
    wait_until("the rank is gone", lambda: not is_alive(rank))
    wait_until("no container is left", lambda: not podman.containers())
    assert hosts.ended(run)["attempts"][0]["cause"] == "node_lost"


def test_a_stopped_run_ends_in_order_within_its_image(hosts: Cluster, podman: Podman) -> None:
    script = "trap 'cat /etc/image; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    run = hosts.submit(*in_image(), "--", "sh", "-c", script)
    wait_until("it is ready", lambda: "ready" in lines(hosts, run))
    hosts.ok("stop", run)
    assert hosts.ended(run)["state"] == "cancelled"
    assert "inside" in lines(hosts, run)
    wait_until("no container is left", lambda: not podman.containers())


def test_an_image_that_a_host_lacks_is_named_with_what_to_do(hosts: Cluster) -> None:
    run = hosts.submit("--image", "localhost/nothing:3", "--", "true")
    reason = only_attempt_failed(hosts, run)
    assert "has no image localhost/nothing:3 on this host" in reason
    assert "`podman pull localhost/nothing:3`" in reason


def test_no_secret_of_the_run_is_in_the_container(hosts: Cluster, podman: Podman) -> None:
    run = hosts.submit(*in_image("--env", "API_KEY=s3cr3t"), "--", "sleep", "1000")
    hosts.running_ranks(run)
    name = podman.containers().strip()
    shown = podman.command("inspect", name).stdout.decode()
    secret = (hosts.attempt_folder(run) / "node-0" / "secret").read_text()
    assert IMAGE in shown
    assert "s3cr3t" not in shown and secret not in shown and "LOCKSTEP_NODE_TOKEN" not in shown
