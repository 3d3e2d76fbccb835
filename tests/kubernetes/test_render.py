"""`lockstep k8s`: the files of tests/golden/kubernetes have a command line in their first line and
its output below. LOCKSTEP_UPDATE_GOLDEN=1 rewrites the output. Kubernetes' own schemas accept it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.conftest import PATIENCE, PROGRAM, ROOT

GOLDEN = sorted((ROOT / "tests/golden/kubernetes").glob("*.yaml"))
JOBSET_SCHEMA = ROOT / "tests/golden/kubernetes/jobset.schema.json"
WRONG_INPUT = 2


def lockstep(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *words], text=True, capture_output=True, timeout=PATIENCE, check=False
    )


def objects(*words: str) -> list[dict[str, Any]]:
    done = lockstep("k8s", "render", *words)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def refused(*words: str) -> str:
    done = lockstep("k8s", *words)
    assert (done.returncode, done.stdout) == (WRONG_INPUT, ""), done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_command_prints_the_expected_manifests(path: Path) -> None:
    first, _, expected = path.read_text().partition("\n")
    done = lockstep(*shlex.split(first.removeprefix("# lockstep ")))
    assert (done.returncode, done.stderr) == (0, "")
    if "LOCKSTEP_UPDATE_GOLDEN" in os.environ:
        path.write_text(f"{first}\n{done.stdout}")
    else:
        assert done.stdout == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_the_schemas_of_kubernetes_accept_the_manifests(path: Path, version: str) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        if manifest["kind"] == "PodGroup":  # each scheduler has its own
            continue
        if manifest["kind"] == "JobSet":
            jsonschema.validate(manifest, json.loads(JOBSET_SCHEMA.read_text()))
            inner = manifest["spec"]["replicatedJobs"][0]["template"]
            manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, **inner}
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_program_gets_its_words_as_they_were_typed() -> None:
    words = ["python", "train.py", "$(hostname)", "$$", "1_000", "no", 'a "b"', "é: #x"]
    [_, job] = objects("job", "--name", "train", "-I", "pytorch", "--", *words)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [*words[:2], "$$(hostname)", "$$$", *words[4:]]


def test_the_ranks_of_a_job_meet_at_the_host_name_of_its_first_pod() -> None:
    service, job = objects("job", "--name", "train", "-n", "4", "-I", "pytorch")
    pod = job["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert (
        service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    )
    assert env["MASTER_ADDR"] == env["PET_MASTER_ADDR"] == "train-0.train"
    assert (env["WORLD_SIZE"], env["RANK"]) == ("4", "$(NODE_RANK)")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "action"),
        (["make"], "'make'"),
        (["render"], "job|jobset|pod|service"),
        (["render", "cron"], "'cron'"),
        (["render", "job", "-I", "a"], "--name is required"),
        (["render", "job", "--name", "a"], "--image is required"),
        (["render", "job", "--name", "A", "-I", "a"], "--name: 'A'"),
        (["render", "job", "--name", "a", "-I", "a b"], "--image 'a b'"),
        (["render", "job", "--name", "a", "-I", "a", "-n", "0"], "1 to 100000"),
        (["render", "job", "--name", "a", "-I", "a", "-M", "much"], "--memory: 'much'"),
        (["render", "job", "--name", "a", "-I", "a", "-C", "-1"], "--cores: '-1'"),
        (["render", "job", "--name", "a", "-I", "a", "-e", "RANK=1"], "--env RANK"),
        (["render", "job", "--name", "a", "-I", "a", "-e", "PATH"], "--env: 'PATH'"),
        (["render", "job", "--name", "a", "-I", "a", "-L", "a b=c"], "--label: 'a b'"),
        (["render", "job", "--name", "a", "-I", "a", "-P", "70000"], "1 to 65535"),
        (["render", "job", "--name", "a", "-I", "a", "--volume", "d:/d"], "--volume: 'd:/d'"),
        (["render", "job", "--name", "a", "-I", "a", "-p", "x=1"], "--param"),
        (["render", "job", "--name", "a", "-I", "a", "-c", "b", "-p", "x=1"], "no {x}"),
        (["render", "job", "--name", "a", "-I", "a", "-c", "b", "--", "c"], "not both"),
        (["render", "job", "--name", "a", "-I", "a", "--timeout", "soon"], "--timeout"),
        (["render", "job", "--name", "a", "-I", "a", "--timeout", "0s"], "--timeout 0s"),
        (["render", "job", "--name", "a", "-I", "a", "--rdma", "rdma/hca=0"], "--rdma"),
        (["render", "job", "--name", "a", "-I", "a", "--gang", "kueue"], "--gang: 'kueue'"),
        (["render", "service", "--name", "a", "--gang", "volcano"], "--gang is for"),
        (["install", "-I", "a b"], "--image 'a b'"),
        (["install", "-I", "a", "--run-image", "b c"], "--run-image 'b c'"),
        (["rbac", "job"], "'job'"),
        (["rbac", "--namespace", "M L"], "--namespace: 'M L'"),
        (["install"], "--image is required"),
        (["install", "-I", "a", "--storage", "much"], "--storage"),
        (["install", "-I", "a", "--shared", "/data"], "--volume pvc:NAME:/data"),
        (["install", "-I", "a", "--volume", "d:/d"], "'d:/d'"),
        (["check", "job"], "'job'"),
    ],
)
def test_wrong_words_are_one_line_that_names_them(words: list[str], told: str) -> None:
    assert told in refused(*words)
