"""Commands that talk to a daemon by its address: profiles, and the variables of programs."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.conftest import Cluster, Laptop


def test_a_login_makes_commands_use_that_daemon_until_the_logout(
    cluster: Cluster, laptop: Laptop
) -> None:
    run = cluster.submit("--", "true")
    said = laptop.ok("login", cluster.url(), input=cluster.token() + "\n")
    assert "logged in" in said and cluster.token() not in said
    assert run in laptop.ok("ps")
    assert json.loads(laptop.ok("version", "--json"))["daemon"]["url"] == cluster.url()
    profile = laptop.profiles / "default.json"
    assert stat.S_IMODE(profile.stat().st_mode) == 0o600
    assert stat.S_IMODE(laptop.profiles.stat().st_mode) == 0o700
    listed = json.loads(laptop.ok("login", "--list", "--json"))
    assert listed == [{"name": "default", "url": cluster.url()}]
    assert cluster.url() in laptop.ok("login", "--list")
    laptop.ok("logout")
    assert not profile.exists()
    assert "there are no profiles" in laptop.ok("login", "--list")
    again = laptop.command("logout")
    assert again.returncode == 2 and "there is no profile 'default'" in again.stderr
    assert laptop.starts_no_daemon()


def test_a_profile_is_chosen_by_option_or_variable_and_a_folder_comes_before_the_default(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    token_file = cluster.home / "token"
    laptop.ok("login", cluster.url(), "cluster", "--token-file", str(token_file))
    run = cluster.submit("--", "true")
    assert run in laptop.ok("--profile", "cluster", "ps")
    assert run in laptop.ok("--profile=cluster", "ps")
    laptop.environment["LOCKSTEP_PROFILE"] = "cluster"
    assert run in laptop.ok("ps")
    missing = laptop.command("--profile", "other", "ps")
    assert missing.returncode == 2 and "there is no profile 'other'" in missing.stderr
    for name in ("../x", "", "a b"):
        refused = laptop.command("login", cluster.url(), name, "--token-file", str(token_file))
        assert refused.returncode == 2, name
    del laptop.environment["LOCKSTEP_PROFILE"]
    laptop.ok("login", cluster.url(), "--token-file", str(token_file))
    other = Cluster(tmp_path / "other")
    other.environment["HOME"] = str(laptop.folder)
    other.serve("1x1")
    try:
        assert json.loads(other.ok("version", "--json"))["daemon"]["url"] == other.url()
    finally:
        other.close()


def test_a_program_names_the_daemon_by_variables(cluster: Cluster, laptop: Laptop) -> None:
    run = cluster.submit("--", "true")
    laptop.environment["LOCKSTEP_URL"] = cluster.url()
    refused = laptop.command("ps")
    assert refused.returncode == 2 and "set it to a file with the token" in refused.stderr
    laptop.environment["LOCKSTEP_TOKEN_FILE"] = str(cluster.home / "token")
    assert run in laptop.ok("ps")
    laptop.environment["LOCKSTEP_URL"] = "ftp://head"
    refused = laptop.command("ps")
    assert refused.returncode == 2 and "LOCKSTEP_URL" in refused.stderr
    assert laptop.starts_no_daemon()


def test_a_login_that_does_not_work_keeps_nothing_and_says_why(
    cluster: Cluster, laptop: Laptop
) -> None:
    for words, typed, reason in (
        ([cluster.url()], "0" * 64, "is not the daemon that was started there"),
        ([cluster.url()], "", "the token is empty"),
        (["http://10.0.0.1:7070"], "x", "is not encrypted"),
        (["https://127.0.0.1:1#sha256:12"], "x", "is not a fingerprint"),
        (["https" + cluster.url()[4:]], "x", "does not speak TLS"),
        ([], "", "name the address"),
    ):
        refused = laptop.command("login", *words, input=typed + "\n")
        assert refused.returncode != 0 and reason in refused.stderr, refused.stderr
    assert not laptop.profiles.exists()


def test_a_damaged_profile_and_one_that_others_read_are_refused(
    cluster: Cluster, laptop: Laptop
) -> None:
    laptop.ok("login", cluster.url(), input=cluster.token())
    profile = laptop.profiles / "default.json"
    profile.chmod(0o644)
    refused = laptop.command("ps")
    assert refused.returncode != 0 and "chmod 600" in refused.stderr
    profile.chmod(0o600)
    profile.write_text("{")
    refused = laptop.command("ps")
    assert refused.returncode != 0 and "is damaged" in refused.stderr


def test_a_terminal_does_not_show_the_token(cluster: Cluster, laptop: Laptop) -> None:
    shown = laptop.on_terminal(
        "login", cluster.url(), dialog={"token of the daemon at": cluster.token()}
    )
    assert "logged in" in shown and cluster.token() not in shown


def test_run_says_what_it_cannot_check_for_another_machine(
    cluster: Cluster, laptop: Laptop
) -> None:
    laptop.ok("login", cluster.url(), input=cluster.token())
    done = laptop.command("run", "--", "sh", "-c", "echo $HOME; pwd", cwd="/")
    assert done.returncode == 0, done.stderr
    assert "the daemon is on another machine: ranks start in / there" in done.stderr
    assert "is not checked" in done.stderr
    assert str(laptop.folder) not in done.stdout, "HOME is that of the daemon's machine"
    # A program that only the other machine has, as far as this command knows.
    done = laptop.command("run", "--", "/nowhere/train")
    assert done.returncode == 1 and "/nowhere/train" in done.stderr
    assert laptop.starts_no_daemon()
