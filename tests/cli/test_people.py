"""Users, projects and tokens, typed as an admin and as another user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster, Laptop

WRONG = (
    (("user", "frob"), ["there is no action 'frob'", "ls|add|rm|disable|enable|admin"]),
    (("user", "add"), ["user add: name a user"]),
    (("user", "ls", "ann"), ["leave out the name"]),
    (("user", "rm", "ann", "--admin"), ["--admin is for add"]),
    (("user", "add", "ann", "--revoke"), ["--revoke is for admin"]),
    (("project", "frob"), ["there is no action 'frob'", "ls|add|rm|member|service"]),
    (("project", "add"), ["project add: name a project"]),
    (("project", "member", "demo"), ["name a user"]),
    (("project", "add", "demo", "ann"), ["takes one project"]),
    (("project", "add", "demo", "--role", "viewer"), ["--role is for member and service"]),
    (("project", "member", "demo", "ann", "--role", "boss"), ["'boss' is none of viewer, member"]),
    (("project", "rm", "demo", "--remove"), ["--remove is for member"]),
    (("token", "frob"), ["there is no action 'frob'", "ls|create|revoke"]),
    (("token", "revoke"), ["name a token by its id"]),
    (("token", "create", "x"), ["takes no id"]),
    (("token", "create", "--expires", "soon"), ["--expires", "soon"]),
    (("token", "ls", "--name", "x"), ["are for create"]),
    (("audit", "--since", "yesterday"), ["--since", "'yesterday'"]),
    (("audit", "--limit", "0"), ["--limit"]),
)


@pytest.mark.parametrize(("words", "parts"), WRONG)
def test_wrong_words_are_refused_without_a_daemon(
    words: tuple[str, ...], parts: list[str], idle: Cluster
) -> None:
    line = refused(idle, *words)
    assert all(part in line for part in parts), line
    assert not idle.home.exists()


WRONG_NAMES = (
    (("user", "add", "\u00e4nn"), ["a name has 1 to 64 of the characters a-z"]),
    (("user", "add", "a" * 300), ["a name has 1 to 64"]),
    (("user", "add", "default"), ["there is a project default already"]),
    (("user", "rm", "nowhere"), ["there is no user nowhere; `lockstep user ls`"]),
    (("project", "add", "Demo"), ["a name has 1 to 64"]),
    (("project", "rm", "nowhere"), ["there is no project nowhere; `lockstep project ls`"]),
    (("project", "rm", "default"), ["it stays"]),
    (("project", "member", "default", "nowhere"), ["there is no user nowhere"]),
    (("token", "create", "--user", "nowhere"), ["there is no user nowhere"]),
    (("token", "create", "--project", "nowhere"), ["there is no project nowhere"]),
    (("token", "revoke", "nowhere"), ["there is no token with this id"]),
)


def test_names_that_cannot_be_are_refused(cluster: Cluster) -> None:
    for words, parts in WRONG_NAMES:
        line = refused(cluster, *words)
        assert all(part in line for part in parts), line
    me = json.loads(cluster.ok("whoami", "--json"))["user"]
    assert "user of the daemon" in refused(cluster, "user", "rm", me)
    assert "user of the daemon" in refused(cluster, "user", "admin", me, "--revoke")


def log_in(admin: Cluster, user: str, laptop: Laptop, tmp_path: Path) -> None:
    token = tmp_path / "token-of-user"
    token.write_text(admin.ok("token", "create", "--user", user, "--expires", "1h"))
    laptop.ok("login", admin.url(), "--token-file", str(token))


def test_a_user_works_in_its_own_project_and_in_a_shared_one(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    cluster.submit("--project", "hidden", "--", "true")
    assert "added ann with its project ann" in cluster.ok("user", "add", "ann")
    assert "added the project demo" in cluster.ok("project", "add", "demo")
    assert cluster.ok("project", "member", "demo", "ann") == "ann is a member of demo\n"
    log_in(cluster, "ann", laptop, tmp_path)
    assert laptop.ok("whoami").splitlines()[0] == "ann"
    run = laptop.submit("--", "true")
    assert run == "ann/1"
    assert laptop.submit("--project", "demo", "--", "true") == "demo/1"
    for name in (run, "demo/1"):
        assert cluster.ended(name)["origin"]["user"] == "ann"
    assert laptop.ok("logs", "1") == ""
    assert "hidden" not in laptop.ok("ps") + laptop.ok("queue") + laptop.ok("host", "ls")
    assert "there is no run hidden/1" in refused(laptop, "show", "hidden/1")
    assert "it needs an admin" in refused(laptop, "host", "drain", "a")
    assert "it needs a member" in laptop.command("run", "--project", "x", "--", "true").stderr
    assert "ann (manager)" in laptop.ok("project", "ls")
    assert "run.submit" in laptop.ok("audit")
    assert "refused: " in cluster.ok("audit", "--user", "ann", "--refused")


def test_a_user_that_is_disabled_or_whose_token_is_revoked_is_told_so(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    cluster.ok("user", "add", "ann")
    log_in(cluster, "ann", laptop, tmp_path)
    (token,) = json.loads(laptop.ok("token", "ls", "--json"))["tokens"]
    assert token["last_used"] is not None
    assert cluster.ok("user", "disable", "ann").startswith("ann is disabled")
    assert "whose user is disabled" in refused(laptop, "ps")
    cluster.ok("user", "enable", "ann")
    laptop.ok("ps")
    cluster.ok("token", "revoke", token["id"])
    assert "it was revoked" in refused(laptop, "ps")


def test_users_and_records_are_there_after_a_restart(cluster: Cluster) -> None:
    cluster.ok("user", "add", "ann", "--admin")
    before = cluster.ok("user", "ls"), cluster.ok("project", "ls"), cluster.ok("audit")
    cluster.kill_daemon()
    assert (cluster.ok("user", "ls"), cluster.ok("project", "ls"), cluster.ok("audit")) == before
