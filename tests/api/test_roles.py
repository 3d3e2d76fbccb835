"""Every route of the description, called by a user of each role and with tokens that are not valid.

Each call has a query that no route has. A caller that may call the route gets 400 because of it,
so that no call changes anything; all others are refused before.
"""

from __future__ import annotations

import http.client
import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.api.calls import Answer, address, agent_token, bearer, generation, user_token

from tests.conftest import PATIENCE, ROOT, Cluster

DESCRIPTION = ROOT / "docs" / "api" / "openapi.json"
OTHER = "hidden-lab"
WRONG_QUERY = "?no_such_field=1"
ROLES = ("manager", "member", "viewer")
EVERYBODY = {"admin", "manager", "member", "viewer", "outsider"}
READERS = {"admin", "manager", "member", "viewer"}
# The users that may do it in the project where three of them have roles.
MAY = {
    "read_cluster": EVERYBODY,
    "read_run": READERS,
    "submit_run": EVERYBODY,  # some project is its own; the body names the project
    "control_run": {"admin", "manager"},  # runs of another user; its own: also "member"
    "open_shell": set(),  # runs of another user; its own: as control_run
    "manage_project": {"admin", "manager"},
    "read_audit": EVERYBODY,  # each has a project of its own
    "manage_self": EVERYBODY,
    "manage_cluster": {"admin"},
    "manage_users": {"admin"},
}
OF_THE_CLUSTER = {"manage_cluster", "manage_users"}


class Route(NamedTuple):
    method: str
    path: str
    action: str
    has_body: bool

    def target(self, project: str, number: int) -> str:
        path = self.path.format(
            project=project,
            number=number,
            host="a",
            user="member",
            token="4fGt2Lm9Qx7Z",
            notice=1,
            document=1,
            secret="api-key",
            model="gpt",
            index=0,
        )
        return path + WRONG_QUERY

    def is_within_a_project(self) -> bool:
        return "{project}" in self.path and self.action not in OF_THE_CLUSTER


def routes_of_users() -> list[Route]:
    paths = json.loads(DESCRIPTION.read_text())["paths"]
    return [
        Route(method.upper(), path, operation["x-lockstep-action"], "requestBody" in operation)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "x-lockstep-action" in operation
    ]


ROUTES = routes_of_users()


class People:
    """A daemon with a user of each role in the project `own`, and a connection to it. Its first run
    is of the member, its second of the manager; the project OTHER has one of the admin."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.connection = http.client.HTTPConnection(*address(cluster), timeout=PATIENCE)
        self.tokens = {"admin": user_token(cluster)}
        for project in ("own", OTHER):
            self.done("/api/v1/projects", {"name": project})
        for name in (*ROLES, "outsider"):
            self.done("/api/v1/users", {"name": name})
            self.tokens[name] = self.new_token(user=name)
        for role in ROLES:
            self.done("/api/v1/projects/own/members", {"user": role, "role": role})
        for user, project in (("member", "own"), ("manager", "own"), ("admin", OTHER)):
            self.done("/api/v1/runs", {"spec": self.spec(project=project)}, user)

    @staticmethod
    def spec(**fields: Any) -> dict[str, Any]:
        return {"command": ["true"], "name": "n", "working_folder": "/", **fields}

    def call(self, token: str, method: str, target: str, body: Any = None) -> Answer:
        headers = bearer(token)
        if body is not None:
            headers["Content-Type"] = "application/json"
        words = None if body is None else json.dumps(body)
        self.connection.request(method, target, body=words, headers=headers)
        return Answer(self.connection.getresponse())

    def as_user(self, user: str, method: str, target: str, body: Any = None) -> Answer:
        return self.call(self.tokens[user], method, target, body)

    def done(self, target: str, body: Any = None, user: str = "admin") -> Any:
        answer = self.as_user(user, "POST", target, body)
        assert answer.status == 200, (target, body, answer.body)
        return answer.json()

    def get(self, user: str, target: str) -> Any:
        answer = self.as_user(user, "GET", target)
        assert answer.status == 200, (user, target, answer.body)
        return answer.json()

    def new_token(self, **fields: Any) -> str:
        return str(self.done("/api/v1/tokens", fields)["token"])

    def on_route(self, token: str, route: Route, project: str = "own", number: int = 1) -> Answer:
        body = {} if route.has_body else None
        return self.call(token, route.method, route.target(project, number), body)


@pytest.fixture
def people(cluster: Cluster) -> Iterator[People]:
    group = People(cluster)
    yield group
    group.connection.close()


def owner_of(project: str, number: int) -> str:
    """As in People."""
    if project == OTHER:
        return "admin"
    return "member" if number == 1 else "manager"


def expected_status(route: Route, user: str, project: str, number: int) -> int:
    may = MAY[route.action]
    if route.action in ("control_run", "open_shell"):
        may = may | {owner_of(project, number)}
    if route.is_within_a_project():
        if route.action == "submit_run":
            may = READERS - {"viewer"}
        reads = {"admin"} if project == OTHER else READERS
        if user not in reads:
            return 404
        may = may & reads
    return 400 if user in may else 403


def test_each_role_may_call_what_it_is_for(people: People) -> None:
    for route in ROUTES:
        for user in EVERYBODY:
            for project, number in (("own", 1), ("own", 2), (OTHER, 1)):
                answer = people.on_route(people.tokens[user], route, project, number)
                expected = expected_status(route, user, project, number)
                where = f"{user}: {route.method} {route.target(project, number)}"
                assert answer.status == expected, f"{where}: {answer.body!r}"
                assert ("no_such_field" in answer.error()) == (expected == 400), where


def test_a_token_that_is_not_valid_may_call_nothing(people: People) -> None:
    revoked = people.new_token(user="member")
    people.done(f"/api/v1/tokens/{revoked.split('_')[1]}/revoke")
    forged = people.tokens["manager"][:-1] + ("a" if people.tokens["manager"][-1] != "a" else "b")
    of_disabled = people.tokens["viewer"]
    people.done("/api/v1/users/viewer", {"disabled": True})
    of_removed = people.tokens["outsider"]
    people.done("/api/v1/users/outsider/remove")
    invalid = {
        "forged": forged,
        "revoked": revoked,
        "ended": people.new_token(expires="1us"),
        "disabled": of_disabled,
        "removed": of_removed,
        "of another daemon": "lst_4fGt2Lm9Qx7Z_" + "a" * 43,
        "of an agent": agent_token(people.cluster, "own/1.1", generation(people.cluster)),
        "none": "",
    }
    for route in ROUTES:
        for kind, token in invalid.items():
            answer = people.on_route(token, route)
            assert answer.status == 401, f"{kind}: {route.method} {route.path}"


def test_a_token_with_bounds_gives_no_more(people: People) -> None:
    reader = people.new_token(project="own", role="viewer")
    for route in ROUTES:
        in_own, in_other = people.on_route(reader, route), people.on_route(reader, route, OTHER)
        if route.action == "read_cluster":
            assert in_own.status == 400, route
        elif route.action == "read_run":
            assert (in_own.status, in_other.status) == (400, 404), route
        elif route.is_within_a_project():
            assert (in_own.status, in_other.status) == (403, 404), route
        else:
            assert in_own.status == 403, route


def test_a_run_of_another_project_is_answered_as_one_that_does_not_exist(people: People) -> None:
    for part in ("", "/logs", "/logs/search?pattern=x", "/metrics"):
        hidden = people.as_user("member", "GET", f"/api/v1/runs/{OTHER}/1{part}")
        missing = people.as_user("member", "GET", f"/api/v1/runs/nowhere/1{part}")
        assert hidden.status == missing.status == 404
        assert hidden.body == missing.body.replace(b"nowhere/1", f"{OTHER}/1".encode())
    seen = [run["id"] for run in people.get("member", "/api/v1/runs")["runs"]]
    assert sorted(seen) == ["own/1", "own/2"]
    for target in ("queue", "hosts", "runs", "projects", "limits", "orphans", "version"):
        assert OTHER not in json.dumps(people.get("member", f"/api/v1/{target}")).replace(
            "a run of another project", ""
        )


def test_each_change_has_a_record_of_the_user_the_address_and_both_values(people: People) -> None:
    admin = people.get("admin", "/api/v1/whoami")["user"]
    people.done("/api/v1/limits", {"scope": "user", "name": "member", "devices": 3})
    people.done("/api/v1/limits", {"scope": "user", "name": "member", "devices": 2})
    people.as_user("viewer", "POST", "/api/v1/runs/own/1/stop", {})
    records = people.get("admin", "/api/v1/audit")["records"]
    assert all(record["time"].endswith("Z") and record["from"] == "" for record in records)
    by_viewer, limit = records[0], records[1]
    assert (by_viewer["user"], by_viewer["action"], by_viewer["target"], by_viewer["refused"]) == (
        "viewer",
        "run.stop",
        "own/1",
        True,
    )
    assert (limit["user"], limit["action"], limit["target"]) == (admin, "limit.set", "user member")
    assert (limit["before"], limit["after"]) == ("3 devices", "2 devices")
    of_runs = people.get("manager", "/api/v1/audit?action=run.submit")["records"]
    assert [(record["user"], record["target"]) for record in of_runs] == [
        ("manager", "own/2"),
        ("member", "own/1"),
    ]


def test_the_database_and_the_log_have_no_token(people: People) -> None:
    secrets = [
        token.rpartition("_")[2] for user, token in people.tokens.items() if user != "admin"
    ] + [people.tokens["admin"]]
    home = people.cluster.home
    files = [*home.glob("lockstep.db*"), *home.glob("*.log"), home / "daemon.json"]
    with sqlite3.connect(f"file:{home / 'lockstep.db'}?mode=ro", uri=True) as database:
        dump = "\n".join(database.iterdump())
    assert "create table tokens" in dump.lower()
    for secret in secrets:
        assert secret not in dump
        assert all(secret.encode() not in file.read_bytes() for file in files)


def test_one_person_needs_no_login(cluster: Cluster) -> None:
    me = json.loads(cluster.ok("whoami", "--json"))
    assert me["admin"] and me["token"] == "" and me["default_project"] == "default"
    run = cluster.submit("--", "true")
    assert run == "default/1"
    assert cluster.ended(run)["origin"]["user"] == me["user"]
