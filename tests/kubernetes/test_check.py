"""`lockstep k8s check`: the client of the API server, by what a user gives it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.api import Api
from tests.kubernetes.conftest import MakeNode
from tests.kubernetes.stub_faults import Fault
from tests.kubernetes.stub_server import StubServer, make_certificate

from tests.conftest import PATIENCE, PROGRAM

DONE, FAILED, REFUSED, UNREACHABLE = 0, 1, 2, 3


def check(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "k8s", "check", "--kubeconfig", str(kubeconfig), *words],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def passes(kubeconfig: Path) -> None:
    done = check(kubeconfig)
    assert done.returncode == DONE, done.stderr + done.stdout


def changed(stub: StubServer, cluster: dict[str, Any], user: dict[str, Any] | None) -> Path:
    """A kubeconfig with other fields of the cluster, and with another user."""
    config = yaml.safe_load(stub.kubeconfig.read_text())
    config["clusters"][0]["cluster"].update(cluster)
    if user is not None:
        config["users"][0]["user"] = user
    path = stub.folder / "changed"
    path.write_text(yaml.safe_dump(config))
    return path


def test_it_shows_the_version_the_rights_and_the_nodes(
    api: Api, make_node: MakeNode, namespace: str
) -> None:
    node = make_node("gpu", devices=4).node
    done = check(api.kubeconfig, "--namespace", namespace, "--json")
    assert done.returncode == DONE, done.stderr
    found = json.loads(done.stdout)
    assert found["version"].startswith("v1.")
    assert (found["namespace"], found["missing_rights"]) == (namespace, [])
    [shown] = [each for each in found["nodes"] if each["name"] == node]
    assert shown["devices"] == 4


def test_rights_that_are_missing_are_named(stub: StubServer) -> None:
    stub.listener.denied = {("create", "pods"), ("list", "nodes")}
    done = check(stub.kubeconfig, "--namespace", "ml")
    assert done.returncode == FAILED
    assert "missing: create pods, list nodes in the whole cluster; " in done.stdout
    assert "`lockstep k8s rbac --namespace ml`" in done.stdout


def test_a_wrong_token_is_refused_with_where_it_is_from(stub: StubServer) -> None:
    done = check(changed(stub, {}, {"token": "secret-but-wrong"}))
    assert done.returncode == REFUSED
    assert "for context 'stub' of " in done.stderr and ": 401 Unauthorized" in done.stderr
    assert "secret-but-wrong" not in done.stderr


def test_a_plugin_gives_the_token(stub: StubServer) -> None:
    plugin = stub.folder / "plugin"
    version = "client.authentication.k8s.io/v1beta1"
    plugin.write_text(
        f"#!{sys.executable}\nimport json, sys\nprint('a warning', file=sys.stderr)\n"
        f"status = {{'token': sys.argv[1], 'expirationTimestamp': '2099-01-01T00:00:00Z'}}\n"
        f"kind, version = 'ExecCredential', '{version}'\n"
        "print(json.dumps({'kind': kind, 'apiVersion': version, 'status': status}))\n"
    )
    plugin.chmod(0o700)
    call = {"apiVersion": version, "command": "./plugin", "args": [stub.listener.token]}
    passes(changed(stub, {}, {"exec": call}))


def test_a_call_acts_as_another_user(stub: StubServer) -> None:
    user = {"token": stub.listener.token, "as": "ann", "as-groups": ["ml", "ops"]}
    passes(changed(stub, {}, user))
    found = stub.listener.last_headers
    assert found["Impersonate-User"] == "ann"
    assert found.get_all("Impersonate-Group") == ["ml", "ops"]


def test_without_libcurl_a_daemon_names_the_package(stub: StubServer, tmp_path: Path) -> None:
    (tmp_path / "libcurl.so.4").touch()
    words = ["serve", "--engine", "k8s", "--agent-image", "lockstep", "--detach"]
    done = subprocess.run(
        [str(PROGRAM), *words, "--kubeconfig", str(stub.kubeconfig)],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        env={
            "PATH": os.environ["PATH"],
            "LOCKSTEP_HOME": str(tmp_path / "home"),
            "LD_LIBRARY_PATH": str(tmp_path),
        },
        check=False,
    )
    assert done.returncode == FAILED
    assert "apt-get install libcurl4" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_client_certificate_is_presented(stub: StubServer, tmp_path: Path) -> None:
    folder = tmp_path / "client"
    folder.mkdir()
    make_certificate(folder)
    context = stub.listener.context
    context.load_verify_locations(folder / "certificate.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    user = {"token": stub.listener.token}
    files = {"client-certificate": "client/certificate.pem", "client-key": "client/key.pem"}
    passes(changed(stub, {}, {**user, **files}))
    assert check(changed(stub, {}, user)).returncode == UNREACHABLE


def test_the_name_of_the_certificate_may_differ_from_the_address(stub: StubServer) -> None:
    url = {"server": stub.url.replace("127.0.0.1", "localhost")}
    refused = check(changed(stub, url, None))
    assert refused.returncode == UNREACHABLE
    assert "localhost" in refused.stderr
    passes(changed(stub, {**url, "tls-server-name": "127.0.0.1"}, None))


def test_a_server_of_another_authority_is_not_trusted(stub: StubServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = {"certificate-authority": str(make_certificate(tmp_path / "other"))}
    refused = check(changed(stub, other, None))
    assert refused.returncode == UNREACHABLE
    assert "certificate" in refused.stderr
    passes(changed(stub, {"insecure-skip-tls-verify": True}, None))


def test_a_server_that_refuses_names_its_reason(stub: StubServer) -> None:
    stub.faults.add(Fault("GET", "/version", status=503))
    done = check(stub.kubeconfig)
    assert done.returncode == UNREACHABLE
    assert "refused GET /version" in done.stderr and "injected by the test" in done.stderr


def test_without_a_kubeconfig_the_error_says_how_to_give_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PROGRAM), "k8s", "check"],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode != DONE
    assert "--kubeconfig FILE" in done.stderr


@pytest.mark.parametrize("name", ["KUBECONFIG", "HOME"])
def test_the_environment_names_the_kubeconfig(stub: StubServer, name: str) -> None:
    value = stub.kubeconfig
    if name == "HOME":
        (stub.folder / ".kube").mkdir()
        (stub.folder / ".kube/config").write_text(stub.kubeconfig.read_text())
        value = stub.folder
    done = subprocess.run(
        [str(PROGRAM), "k8s", "check"],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], name: str(value)},
        check=False,
    )
    assert done.returncode == DONE, done.stderr
