"""Log-ins by a password, as users type them."""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path

import pytest
from tests.api.calls import bearer, call

from tests.conftest import PROGRAM, Cluster, Laptop


def add_user(cluster: Cluster, name: str) -> str:
    """A new user's password for one log-in."""
    said = cluster.ok("user", "add", name, "--password")
    return said.split("by the password ")[1].split()[0]


def log_in(
    cluster: Cluster, laptop: Laptop, user: str, password: str, *words: str
) -> subprocess.CompletedProcess[str]:
    way = ("--user", user, "--password-file", "-", *words)
    return laptop.command("login", cluster.url(), *way, input=password + "\n")


def add_ann(cluster: Cluster, laptop: Laptop, folder: Path) -> None:
    """Ann, logged in by a password of her own."""
    first = add_user(cluster, "ann")
    own = folder / "own"
    own.write_text("ann's own password\n")
    done = log_in(cluster, laptop, "ann", first, "--new-password-file", str(own))
    assert done.returncode == 0, done.stderr


def profile_token(laptop: Laptop) -> str:
    return str(json.loads((laptop.profiles / "default.json").read_text())["token"])


def test_a_first_password_is_for_one_log_in_at_which_the_user_chooses_its_own(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    first = add_user(cluster, "ann")
    refused = log_in(cluster, laptop, "ann", first)
    assert refused.returncode == 2 and "a new password is needed" in refused.stderr
    own = tmp_path / "own"
    own.write_text(first)
    same = log_in(cluster, laptop, "ann", first, "--new-password-file", str(own))
    assert same.returncode == 2 and "is the old one" in same.stderr
    own.write_text("ann's own password\n")
    done = log_in(cluster, laptop, "ann", first, "--new-password-file", str(own))
    assert "logged in as ann" in done.stdout, done.stderr
    assert json.loads(laptop.ok("whoami", "--json"))["user"] == "ann"
    assert json.loads(laptop.ok("token", "ls", "--json"))["tokens"][0]["name"] == (
        "log-in by password"
    )
    again = log_in(cluster, laptop, "ann", first)
    assert again.returncode != 0 and "the password is wrong" in again.stderr
    assert "logged in as ann" in log_in(cluster, laptop, "ann", "ann's own password").stdout


def test_a_logout_revokes_the_token_and_a_change_of_the_password_ends_other_log_ins(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    add_ann(cluster, laptop, tmp_path)
    first = profile_token(laptop)
    assert log_in(cluster, laptop, "ann", "ann's own password").returncode == 0
    second = profile_token(laptop)
    (tmp_path / "old").write_text("ann's own password")
    (tmp_path / "new").write_text("another password")
    files = ("--old-password-file", str(tmp_path / "old"))
    said = laptop.ok("passwd", *files, "--new-password-file", str(tmp_path / "new"))
    assert "1 other log-in by the old one ended" in said
    assert call(cluster, "GET", "/api/v1/whoami", headers=bearer(first)).status == 401
    assert call(cluster, "GET", "/api/v1/whoami", headers=bearer(second)).status == 200
    refused = laptop.command("passwd", *files, "--new-password-file", str(tmp_path / "new"))
    assert refused.returncode != 0 and "wrong" in refused.stderr
    laptop.ok("logout")
    assert call(cluster, "GET", "/api/v1/whoami", headers=bearer(second)).status == 401
    assert not (laptop.profiles / "default.json").exists()


def test_wrong_passwords_and_unknown_users_get_the_same_words_and_then_wait(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    add_ann(cluster, laptop, tmp_path)
    laptop.ok("logout")
    cluster.ok("user", "add", "bob")
    words = set()
    for user in ("ann", "bob", "nobody"):
        refused = log_in(cluster, laptop, user, "not the password")
        assert refused.returncode != 0
        words.add(refused.stderr)
    assert words == {"lockstep: the user name or the password is wrong\n"}
    for _ in range(4):
        log_in(cluster, laptop, "ann", "not the password")
    waits = log_in(cluster, laptop, "ann", "ann's own password")
    assert waits.returncode != 0 and "too many failed log-ins; try again in" in waits.stderr
    assert not laptop.profiles.exists() or not list(laptop.profiles.iterdir())


def test_a_disabled_user_is_refused(cluster: Cluster, laptop: Laptop, tmp_path: Path) -> None:
    add_ann(cluster, laptop, tmp_path)
    cluster.ok("user", "disable", "ann")
    refused = log_in(cluster, laptop, "ann", "ann's own password")
    assert refused.returncode != 0 and "wrong" in refused.stderr
    cluster.ok("user", "enable", "ann")
    assert log_in(cluster, laptop, "ann", "ann's own password").returncode == 0


def test_the_store_and_the_log_have_no_password(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    first = add_user(cluster, "ann")
    own = tmp_path / "own"
    own.write_text("ann's own password\n")
    assert log_in(cluster, laptop, "ann", first, "--new-password-file", str(own)).returncode == 0
    log_in(cluster, laptop, "ann", "a wrong password")
    with sqlite3.connect(f"file:{cluster.home / 'lockstep.db'}?mode=ro", uri=True) as database:
        dump = "\n".join(database.iterdump())
    dump = dump.replace("ann''s", "ann's")
    assert "$argon2id$" in dump
    log = (cluster.home / "daemon.log").read_text()
    for secret in (first, "ann's own password", "a wrong password", profile_token(laptop)[17:]):
        assert secret not in dump and secret not in log


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--user", "Ann"], "begins with a letter or digit"),
        (["--user", "ann", "--oidc"], "--oidc"),
        (["--password-file", "x"], "--user"),
        (["--oidc"], "has no issuer of OIDC"),
    ],
)
def test_log_ins_that_cannot_be_are_refused_with_the_reason(
    words: list[str], reason: str, cluster: Cluster, laptop: Laptop
) -> None:
    refused = laptop.command("login", cluster.url(), *words, input="some password\n")
    assert refused.returncode == 2 and reason in refused.stderr, refused.stderr


def test_a_terminal_asks_for_the_passwords_and_does_not_show_them(
    cluster: Cluster, laptop: Laptop
) -> None:
    first = add_user(cluster, "ann")
    own = "ann's own password"
    shown = laptop.on_terminal(
        *("login", cluster.url(), "--user", "ann"),
        dialog={"The password of ann": first, "The new password": own, "The same again": own},
    )
    assert "logged in as ann" in shown
    assert first not in shown and "own password" not in shown


def test_the_daemon_answers_others_while_it_computes_hashes(
    cluster: Cluster, laptop: Laptop
) -> None:
    """Twelve log-ins at a time hash for more than a second; another call does not wait for it."""
    tries = [
        subprocess.Popen(
            [str(PROGRAM), "login", cluster.url(), "--user", f"user{number}"],
            env=laptop.environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(12)
    ]
    for each in tries:
        assert each.stdin
        each.stdin.write("some password\n")
        each.stdin.close()
    took = []
    while any(each.poll() is None for each in tries):
        begun = time.monotonic()
        assert call(cluster, "GET", "/health").status == 200
        took.append(time.monotonic() - begun)
    assert all(each.wait() != 0 for each in tries)
    assert statistics.median(took) < 0.05, "as long as a hash"
