"""Notices reach webhooks, mail and commands, once each, whatever dies in between."""

from __future__ import annotations

import json
import socketserver
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.api.calls import Answer, ask, bearer, call

from tests.conftest import Cluster, wait_until

LOOPBACK = ("--notice-network", "127.0.0.0/8")
SECRET = "T0-B0-correct-horse"


class Hook(ThreadingHTTPServer):
    """A webhook that keeps what it gets, and answers by `statuses`, then by 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HookHandler)
        self.statuses: list[int] = []
        self.got: list[dict[str, Any]] = []
        self.ids: list[str] = []

    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{SECRET}"


class HookHandler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.ids.append(self.headers["Lockstep-Notice"])
        self.server.got.append(json.loads(body))

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    with serving(server):
        yield server


@pytest.fixture
def open_cluster(idle: Cluster) -> Cluster:
    idle.serve("1x2", *LOOPBACK)
    return idle


def targets(cluster: Cluster) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(cluster.ok("notice", "ls", "--json"))["targets"]
    return listed


def failing_run(cluster: Cluster) -> str:
    run = cluster.submit("--name", "train", "--", "sh", "-c", "sleep 1; exit 3")
    cluster.ended(run)
    return run


def test_a_failure_reaches_a_webhook_with_the_daemons_reason(
    open_cluster: Cluster, hook: Hook
) -> None:
    added = open_cluster.ok("notice", "add", "webhook", hook.url())
    assert "1: webhook http://127.0.0.1" in added and SECRET not in added
    run = failing_run(open_cluster)
    wait_until("the notice has come", lambda: hook.got)
    (notice,) = hook.got
    shown = open_cluster.show(run)
    assert notice["kind"] == "run_failed" and notice["run"] == run and notice["state"] == "failed"
    assert notice["reason"] == shown["reason"] and notice["name"] == "train"
    assert notice["user"] == shown["origin"]["user"] and notice["id"] == hook.ids[0]
    assert notice["text"].startswith(f"{run} (train) failed after ")
    assert notice["text"].endswith(f": {shown['reason']}")
    succeeded = open_cluster.submit("--", "true")
    open_cluster.ended(succeeded)
    wait_until("it is recorded", lambda: targets(open_cluster)[0]["delivered"])
    assert len(hook.got) == 1, "only failures were asked for"


def test_slack_gets_the_ends_of_runs_too(open_cluster: Cluster, hook: Hook) -> None:
    open_cluster.ok("notice", "add", "webhook", "-", "--slack", "--on", "ended", input=hook.url())
    run = open_cluster.submit("--name", "a<b", "--", "sleep", "1")
    open_cluster.ended(run)
    wait_until("the message has come", lambda: hook.got)
    (message,) = hook.got
    assert message.keys() == {"text"}
    assert message["text"].startswith(f"{run} (a&lt;b) succeeded after ")


def test_a_refused_try_is_made_again_and_the_list_says_why(
    open_cluster: Cluster, hook: Hook
) -> None:
    hook.statuses = [500]
    open_cluster.ok("notice", "add", "webhook", hook.url())
    failing_run(open_cluster)
    failed = wait_until("the first try has failed", lambda: targets(open_cluster)[0]["problem"])
    assert failed.startswith("answered 500 in ")
    assert "answered 500" in open_cluster.ok("notice", "ls")
    wait_until("the second try has come", lambda: len(hook.got) == 2)
    assert hook.got[0] == hook.got[1]
    wait_until("nothing waits", lambda: targets(open_cluster)[0]["waiting"] == 0)
    assert targets(open_cluster)[0]["problem"] == ""


def test_a_kill_between_the_end_of_a_run_and_its_delivery_loses_nothing(
    open_cluster: Cluster, hook: Hook
) -> None:
    hook.statuses = [503]  # the end is stored, and not delivered
    open_cluster.ok("notice", "add", "webhook", hook.url())
    run = failing_run(open_cluster)
    wait_until("the first try has failed", lambda: targets(open_cluster)[0]["problem"])
    open_cluster.kill_daemon()
    open_cluster.ok("serve", "--again", "--detach")
    wait_until("the next daemon delivers it", lambda: len(hook.got) == 2)
    assert [notice["run"] for notice in hook.got] == [run, run] and len(set(hook.ids)) == 1
    wait_until("nothing waits", lambda: targets(open_cluster)[0]["waiting"] == 0)


def test_the_daemon_answers_while_a_webhook_never_does(open_cluster: Cluster) -> None:
    with serving(silent := SilentServer()):
        open_cluster.ok("notice", "add", "webhook", silent.url())
        failing_run(open_cluster)
        wait_until("the webhook is called", lambda: silent.calls)
        begun = time.monotonic()
        assert open_cluster.ended(open_cluster.submit("--", "true"))["state"] == "succeeded"
        assert time.monotonic() - begun < 9, "another run does not wait for the webhook"
        tested = open_cluster.command("notice", "test", "1")
    assert tested.returncode == 1 and tested.stdout == ""
    assert tested.stderr == "lockstep: target 1: no answer within 10s\n"
    (target,) = targets(open_cluster)
    assert target["waiting"] == 1 and target["dropped"] == 0


class SilentServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", 0), SilentHandler)

    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{SECRET}"

    def shutdown(self) -> None:
        self.ended.set()
        super().shutdown()


class SilentHandler(socketserver.BaseRequestHandler):
    server: SilentServer

    def handle(self) -> None:
        self.server.calls.append(self.request.recv(100))
        self.server.ended.wait(60)


def test_a_private_address_is_refused_unless_it_is_allowed(cluster: Cluster, hook: Hook) -> None:
    cluster.ok("notice", "add", "webhook", hook.url().replace("127.0.0.1", "localhost"))
    tested = cluster.command("notice", "test", "1")
    assert tested.returncode == 1 and SECRET not in tested.stderr
    assert "is not a public address" in tested.stderr and "--notice-network" in tested.stderr
    assert hook.got == []


def test_a_test_delivers_one_notice_and_says_so_in_one_line(
    open_cluster: Cluster, hook: Hook
) -> None:
    open_cluster.ok("notice", "add", "webhook", hook.url())
    said = open_cluster.ok("notice", "test", "1")
    assert said.startswith("answered 200 in ") and said.endswith(" ms\n")
    wait_until("the notice is read", lambda: hook.got)
    assert "this is a test by " in hook.got[0]["text"]
    assert open_cluster.ok("notice", "rm", "1") == "removed the target 1\n"
    assert "no target of notices" in open_cluster.ok("notice", "ls")


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.mails: list[str] = []
        super().__init__(("127.0.0.1", 0), MailHandler)


class MailHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())

    def handle(self) -> None:
        lines: list[str] = []
        self.say("220 small")
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            lines.append(line)
            if line == "QUIT":
                return self.say("221 bye")
            if line == "DATA":
                self.say("354 go on")
                while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    lines.append(line)
                self.server.mails.append("\n".join(lines))
            self.say("250 well")
        return None


def test_a_failure_is_told_by_mail(idle: Cluster) -> None:
    with serving(server := MailServer()):
        url = f"smtp://127.0.0.1:{server.server_address[1]}"
        idle.serve("1x2", "--smtp", url, "--smtp-from", "lockstep@example.com")
        idle.ok("notice", "add", "mail", "ann@example.com")
        run = failing_run(idle)
        wait_until("the mail has come", lambda: server.mails)
    (mail,) = server.mails
    assert "MAIL FROM:<lockstep@example.com>" in mail and "RCPT TO:<ann@example.com>" in mail
    assert f"Subject: [lockstep] {run} (train) failed" in mail
    assert idle.show(run)["reason"] in mail and f"lockstep show {run}" in mail


def test_a_command_gets_the_notice_on_its_standard_input(idle: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "commands"
    folder.mkdir(mode=0o755)
    program = folder / "tell"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/got\n")
    program.chmod(0o755)
    idle.serve("1x2", "--notice-commands", str(folder))
    idle.ok("notice", "add", "command", "tell", "--all", "--on", "ended")
    run = idle.submit("--", "true")
    idle.ended(run)
    wait_until("the command has run", (tmp_path / "got").exists)
    assert json.loads((tmp_path / "got").read_text())["run"] == run
    refused = idle.command("notice", "add", "command", "../tell", "--all")
    assert refused.returncode == 2 and "is no name of a program" in refused.stderr


def test_a_budget_warns_once_at_each_level(open_cluster: Cluster, hook: Hook) -> None:
    open_cluster.ok("project", "add", "lab")
    open_cluster.ok("notice", "add", "webhook", hook.url(), "--project", "lab", "--on", "budget")
    open_cluster.ok("budget", "grant", "lab", "0.2", "--until", "2099-01-01")
    open_cluster.ended(
        open_cluster.submit("--project", "lab", "--timeout", "11s", "--", "sleep", "10")
    )
    wait_until("the warning has come", lambda: hook.got)
    (warning,) = hook.got
    assert warning["kind"] == "budget_warning" and warning["project"] == "lab"
    assert warning["used_percent"] >= 80
    assert warning["text"] == f"{warning['used_percent']} % of the budget of lab is used"


def test_the_cost_of_a_run_with_a_budget_is_in_its_notice(
    open_cluster: Cluster, hook: Hook
) -> None:
    open_cluster.ok("project", "add", "lab")
    open_cluster.ok("budget", "grant", "lab", "1000", "--until", "2099-01-01")
    open_cluster.ok("notice", "add", "webhook", hook.url(), "--on", "ended")
    open_cluster.ended(
        open_cluster.submit("--project", "lab", "--timeout", "1m", "--", "sleep", "1")
    )
    wait_until("the notice has come", lambda: hook.got)
    assert hook.got[0]["cost_device_seconds"] >= 1
    assert "; it cost " in hook.got[0]["text"]


def as_user(cluster: Cluster, token: str, method: str, target: str, body: Any = None) -> Answer:
    headers = bearer(token)
    if body is not None:
        headers["Content-Type"] = "application/json"
    return call(cluster, method, target, None if body is None else json.dumps(body), headers)


def done(cluster: Cluster, target: str, body: Any) -> Any:
    answer = ask(cluster, "POST", target, json.dumps(body))
    assert answer.status == 200, answer.body
    return answer.json()


def test_each_role_adds_the_targets_that_it_may(open_cluster: Cluster, hook: Hook) -> None:
    done(open_cluster, "/api/v1/projects", {"name": "lab"})
    tokens = {}
    for role in ("manager", "member", "viewer"):
        done(open_cluster, "/api/v1/users", {"name": role})
        tokens[role] = done(open_cluster, "/api/v1/tokens", {"user": role})["token"]
        done(open_cluster, "/api/v1/projects/lab/members", {"user": role, "role": role})

    def add(user: str, **fields: Any) -> int:
        body = {"kind": "webhook", "where": hook.url(), **fields}
        return as_user(open_cluster, tokens[user], "POST", "/api/v1/notices", body).status

    own = {"scope": "own", "project": "lab"}
    assert [add(user, **own) for user in tokens] == [200, 200, 403]
    assert [add(user, project="lab") for user in tokens] == [200, 403, 403]
    assert [add(user, scope="all") for user in tokens] == [403, 403, 403]
    assert add("manager", kind="command", where="tell") == 403
    assert add("member", project="hidden") == 404

    def seen(user: str) -> list[str]:
        listed = as_user(open_cluster, tokens[user], "GET", "/api/v1/notices").json()["targets"]
        return [f"{one['user']} {one['scope']}" for one in listed]

    assert seen("manager") == ["manager own", "manager project"]
    assert seen("member") == ["member own"] and seen("viewer") == []
    other = as_user(open_cluster, tokens["member"], "POST", "/api/v1/notices/1/remove")
    assert other.status == 404, "the manager's own is not the member's"
    assert len(targets(open_cluster)) == 3, "an admin sees all"


def test_a_member_that_was_removed_gets_nothing_more(open_cluster: Cluster, hook: Hook) -> None:
    done(open_cluster, "/api/v1/projects", {"name": "lab"})
    done(open_cluster, "/api/v1/users", {"name": "eve"})
    token = done(open_cluster, "/api/v1/tokens", {"user": "eve"})["token"]
    done(open_cluster, "/api/v1/projects/lab/members", {"user": "eve", "role": "manager"})
    body = {"kind": "webhook", "where": hook.url(), "project": "lab"}
    assert as_user(open_cluster, token, "POST", "/api/v1/notices", body).status == 200
    done(open_cluster, "/api/v1/projects/lab/members", {"user": "eve", "role": None})
    open_cluster.ended(open_cluster.submit("--project", "lab", "--", "false"))
    wait_until("the notice is dropped", lambda: targets(open_cluster)[0]["dropped"] == 1)
    assert hook.got == []


def test_no_answer_list_log_table_or_record_has_the_url(open_cluster: Cluster, hook: Hook) -> None:
    open_cluster.ok("notice", "add", "webhook", hook.url())
    same = open_cluster.ok("notice", "add", "webhook", hook.url(), "--on", "ended")
    assert same.startswith("1: "), "the same target again is the one that is there"
    hook.statuses = [500]
    open_cluster.ended(open_cluster.submit("--", "true"))
    wait_until("a try has failed", lambda: targets(open_cluster)[0]["problem"])
    with sqlite3.connect(f"file:{open_cluster.home / 'lockstep.db'}?mode=ro", uri=True) as database:
        texts = list(database.iterdump())
    texts += [
        open_cluster.ok(*words) for words in (("notice", "ls", "--json"), ("audit", "--json"))
    ]
    texts.append((open_cluster.home / "daemon.log").read_text())
    assert "http://127.0.0.1" in "".join(texts)
    assert all(SECRET not in text for text in texts)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add",), "write what to add and where it is"),
        (("add", "webhook"), "write what to add and where it is"),
        (("add", "webhook", "ftp://a/b"), "a webhook is a URL such as"),
        (("add", "webhook", "https://"), "a webhook is a URL such as"),
        (("add", "pager", "x"), "there is no kind 'pager'"),
        (("add", "mail", "ann@example.com"), "this daemon sends no mail"),
        (("add", "mail", "ann@example.com", "--slack"), "--slack is for a webhook"),
        (("add", "command", "tell"), "this daemon starts no commands"),
        (("add", "webhook", "https://a.b", "--on", "sometimes"), "--on"),
        (("add", "webhook", "https://a.b", "--project", "hidden"), "hidden"),
        (("add", "webhook", "https://a.b", "--all", "--project", "x"), "leave out --own"),
        (("rm",), "name one target by its ID"),
        (("rm", "x"), "'x' is no ID"),
        (("rm", "7"), "there is no target 7"),
        (("test", "0"), "'0' is no ID"),
        (("ls", "1"), "leave out the word"),
        (("send",), "there is no action 'send'"),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(
    cluster: Cluster, words: tuple[str, ...], reason: str
) -> None:
    refused = cluster.command("notice", *words)
    assert refused.returncode != 0 and reason in refused.stderr, refused.stderr
    assert refused.stderr.count("\n") == 1 and refused.stdout == ""
    assert targets(cluster) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--notice-network", "10.0.0.0/99"), "--notice-network: '10.0.0.0/99' is no network"),
        (("--notice-commands", "/no/such"), "--notice-commands: there is no folder /no/such"),
        (("--smtp", "smtp://a"), "--smtp and --smtp-from belong together"),
        (("--smtp", "http://a", "--smtp-from", "a@b"), "is no server of mail"),
        (("--smtp", "smtp://a", "--smtp-from", "a"), "--smtp-from: 'a' is no address of a mail"),
        (("--smtp-user", "x"), "--smtp-user and --smtp-password-file belong together"),
    ],
)
def test_wrong_options_of_the_daemon_are_one_line(
    idle: Cluster, words: tuple[str, ...], reason: str
) -> None:
    refused = idle.command("serve", "--detach", *words)
    assert refused.returncode != 0 and reason in refused.stderr, refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_password_that_others_may_read_is_refused(idle: Cluster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x\n")
    (tmp_path / "password").chmod(0o644)
    mail = ("--smtp", "smtp://a", "--smtp-from", "a@b", "--smtp-user", "u")
    refused = idle.command(
        "serve", "--detach", *mail, "--smtp-password-file", str(tmp_path / "password")
    )
    assert refused.returncode != 0 and "chmod 600" in refused.stderr


def test_a_daemon_without_libcurl_refuses_a_webhook_and_names_the_package(
    idle: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "libcurl.so.4").touch()
    idle.environment["LD_LIBRARY_PATH"] = str(tmp_path)
    idle.serve()
    refused = idle.command("notice", "add", "webhook", "https://a.b")
    assert refused.returncode != 0 and "apt-get install libcurl4" in refused.stderr
