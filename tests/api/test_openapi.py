"""The description of the API matches the declarations, and access is as it says."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.api.calls import agent_token, ask, bearer, call, user_token

from tests.conftest import BUILD, ROOT, Cluster

DESCRIPTION = ROOT / "docs" / "api" / "openapi.json"
WORDS = {
    "project": "default",
    "number": "1",
    "epoch": "1",
    "index": "0",
    "secret": "api-key",
    "model": "gpt",
    "document": "1",
    "notice": "1",
    "host": "gpu1",
    "user": "ann",
    "token": "4fGt2Lm9Qx7Z",
    "stream": "9f86d081884c7d65",
}


def routes() -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path with example values, and operation, of every route."""
    paths = json.loads(DESCRIPTION.read_text())["paths"]
    return [
        (method.upper(), path.format(**WORDS), operation)
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]


def test_the_file_is_what_the_declarations_say_and_what_the_daemon_serves(cluster: Cluster) -> None:
    words = subprocess.run(
        [str(BUILD / "bin" / "lockstep-openapi")], capture_output=True, text=True, check=True
    ).stdout
    assert DESCRIPTION.read_text() == words, "run build/bin/lockstep-openapi >docs/api/openapi.json"
    assert ask(cluster, "GET", "/api/openapi.json").json() == json.loads(words)


def caller_of(target: str) -> str:
    of_host = {"join", "report", "items", "folders", "files"}
    if target.startswith("/api/v1/hosts/") and target.rpartition("/")[2] in of_host:
        return "host"  # this daemon has none
    return "agent" if "/attempts/" in target else "user"


def test_each_call_wants_its_own_token(cluster: Cluster) -> None:
    cluster.ended(cluster.submit("--", "true"))
    right = {"user": user_token(cluster), "agent": agent_token(cluster, "default/1.1")}
    anyone = []
    for method, target, operation in routes():
        if operation.get("security") == []:
            anyone.append(target)
            continue
        own = caller_of(target)
        wrong = [{}, bearer("0" * 64), *(bearer(right[other]) for other in right if other != own)]
        wrong.append(bearer(agent_token(cluster, "default/1.2")))
        wrong.append({"Authorization": f"Basic {right['user']}"})
        for headers in wrong:
            answer = call(cluster, method, target, headers=headers)
            assert answer.status == 401, f"{method} {target} with {headers}"
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "token" in answer.error()
        if own in right:
            assert call(cluster, method, target, headers=bearer(right[own])).status != 401
    assert anyone == [
        "/health",
        "/api/v1/login",
        "/api/v1/login",
        "/api/v1/login/device",
        "/api/v1/login/device/poll",
        "/api/v1/session",
    ]


@pytest.mark.parametrize(("method", "path", "operation"), routes())
def test_other_methods_of_a_path_are_refused_with_those_that_it_has(
    method: str, path: str, operation: dict[str, Any], cluster: Cluster
) -> None:
    assert {"200", "101"} & set(operation["responses"])  # 101: a stream begins
    answer = ask(cluster, "PUT", path)  # no route has it
    assert answer.status == 405
    assert method in answer.headers["allow"].split(", ")
    assert answer.error()
