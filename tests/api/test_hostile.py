"""The daemon's answers to faulty and hostile callers; it serves the others meanwhile."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import time
from collections.abc import Iterator

import pytest
from tests.api.calls import Answer, ask, bearer, call, connect, raw, user_token

from tests.conftest import Cluster, wait_until

MIB = 1 << 20
RUNS = "/api/v1/runs"


def memory(cluster: Cluster) -> int:
    """The daemon's peak memory, in bytes."""
    for line in open(f"/proc/{cluster.daemon_pid()}/status"):  # noqa: SIM115
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the daemon has no VmHWM")


def serves(cluster: Cluster) -> bool:
    return call(cluster, "GET", "/health").status == 200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"spec": {"command": ["true"]', "line 1, column 29"),
        ('{"spec":\n {"command": [true,]}}', "line 2"),
        ('{"spec": {"command": "true"}}', "spec.command: expected a list"),
        ('{"spec": {"command": ["a", 1]}}', "spec.command[1]: expected text"),
        (
            '{"spec": {"command": ["a"], "nodes": "two"}}',
            'spec.nodes: expected an integer, got "two"',
        ),
        ('{"spec": {"command": ["a"], "nodez": 2}}', "did you mean 'nodes'"),
        ('{"spec": {"command": ["a"]}, "spec": {}}', "the key 'spec' occurs twice"),
        ("[" * 10_000, "nested more than 64 deep"),
        ('{"a":' * 10_000, "nested more than 64 deep"),
        ("\x00", "the body"),
        ("", "the body"),
        ("{} {}", "the body"),
    ],
)
def test_a_body_that_is_wrong_is_refused_with_the_place(
    body: str, named: str, cluster: Cluster
) -> None:
    answer = ask(cluster, "POST", RUNS, body)
    assert answer.status == 400
    assert named in answer.error()
    assert serves(cluster)


def test_a_body_that_is_not_utf_8_or_not_json_is_refused(cluster: Cluster) -> None:
    assert ask(cluster, "POST", RUNS, b'{"spec": {"command": ["\xff"]}}').status == 400
    token = bearer(user_token(cluster))
    assert call(cluster, "POST", RUNS, "{}", token).status == 415
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert call(cluster, "POST", RUNS, "{}", token | form).status == 415
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert call(cluster, "POST", RUNS, "{}", token | packed).status == 415
    assert call(cluster, "GET", RUNS, "{}", token).status == 400
    assert call(cluster, "GET", "/health", "x" * MIB).status == 400


def test_a_body_of_100_mb_is_refused_before_it_is_taken_in(cluster: Cluster) -> None:
    token = f"Authorization: Bearer {user_token(cluster)}\r\nContent-Type: application/json\r\n"
    head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\n{token}"
    before = memory(cluster)
    by_length = raw(cluster, f"{head}Content-Length: {100 * MIB}\r\n\r\n".encode())
    assert by_length.status == 413 and "4.0 MiB" in by_length.error()
    with connect(cluster) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b"x" * MIB + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(chunk)
        received = connection.recv(1000)
    assert received.startswith(b"HTTP/1.1 413 ") and b'{"error"' in received
    assert memory(cluster) - before < 32 * MIB


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("request_words", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: 10.9.8.7\r\n\r\n", 400),
        (
            b"POST /api/v1/runs HTTP/1.1\r\n"
            + HOST
            + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (
            b"POST /api/v1/runs HTTP/1.1\r\n"
            + HOST
            + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"GET /api/v1/runs/%zz/1 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /api/v1/runs/a%00b/1 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /api/v1/runs/../1 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /health?nonce=a&nonce=b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /hea\x00lth HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /health HTTP/1.1\n" + HOST + b"\n", 400),
        (b"GET /" + b"a" * 10_000, 414),
        (b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 40_000, 431),
        (b"POST /api/v1/runs HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET /health HTTP/1.1\r\n" + HOST + b"Expect: tea\r\n\r\n", 417),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ],
)
def test_what_http_itself_refuses_is_said_as_json_and_ends_the_connection(
    request_words: bytes, status: int, cluster: Cluster
) -> None:
    answer = raw(cluster, request_words)
    assert answer.status == status
    assert answer.error()
    assert answer.headers["connection"] == "close"


def test_a_name_that_the_daemon_was_given_is_a_good_host(idle: Cluster) -> None:
    idle.ok("serve", "--hosts", "1x1", "--name", "head.example", "--detach")
    for host, status in (("head.example:80", 200), ("tail.example", 400)):
        assert raw(idle, f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).status == status


def test_methods_that_are_not_there_are_refused_and_head_is_get(cluster: Cluster) -> None:
    for method in ("OPTIONS", "TRACE", "PUT", "PATCH", "BREW"):
        answer = call(cluster, method, "/health")
        assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"
        assert answer.error()
    head = call(cluster, "HEAD", "/health")
    assert head.status == 200 and head.body == b""
    assert (
        head.headers["content-length"] == call(cluster, "GET", "/health").headers["content-length"]
    )
    assert call(cluster, "GET", "/api/nothing").status == 404
    assert raw(cluster, b"GET /health HTTP/1.0\r\n\r\n").headers["connection"] == "close"


def test_an_expected_100_is_not_given_to_who_may_not_send(cluster: Cluster) -> None:
    answer = raw(
        cluster,
        b"POST /api/v1/runs HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    )
    assert answer.status == 401


def test_a_reader_who_stops_reading_holds_nobody_up(cluster: Cluster) -> None:
    with connect(cluster) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        token = user_token(cluster)
        head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        one = f"GET /api/openapi.json HTTP/1.1\r\n{head}"
        slow.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(2000):
                slow.send(one.encode())
        assert serves(cluster)


@contextlib.contextmanager
def connections(cluster: Cluster, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that never send a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 200), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        yield [stack.enter_context(connect(cluster)) for _ in range(count)]


def test_a_thousand_idle_connections_do_not_keep_others_out(cluster: Cluster) -> None:
    with connections(cluster, 1000):
        for _ in range(20):
            assert serves(cluster)
        assert ask(cluster, "GET", RUNS).json()["runs"] == []


def cpu_seconds(cluster: Cluster) -> float:
    words = open(f"/proc/{cluster.daemon_pid()}/stat").read().rsplit(")", 1)[1].split()  # noqa: SIM115
    return (int(words[11]) + int(words[12])) / 100


def test_a_daemon_out_of_descriptors_closes_idle_connections_and_does_not_spin(
    cluster: Cluster,
) -> None:
    pid = cluster.daemon_pid()
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (60, hard))
    with connections(cluster, 200):
        assert serves(cluster)
        before, began = cpu_seconds(cluster), time.monotonic()
        wait_until("a second is over", lambda: time.monotonic() > began + 1)
        assert cpu_seconds(cluster) - before < 0.5
        assert ask(cluster, "GET", RUNS).json()["runs"] == []


def test_values_of_the_environment_are_shown_nowhere(cluster: Cluster) -> None:
    run = cluster.submit("--env", "API_KEY=s3cret-value", "--", "sh", "-c", "test $API_KEY")
    view = cluster.ended(run)
    assert view["state"] == "succeeded", "the ranks have it"
    assert view["spec"]["env"]["API_KEY"] == "***"
    for answer in (ask(cluster, "GET", RUNS), ask(cluster, "GET", f"{RUNS}/{run}")):
        assert b"s3cret-value" not in answer.body


def test_a_failed_run_is_resumed(cluster: Cluster) -> None:
    run = cluster.submit("--", "false")
    assert cluster.ended(run)["state"] == "failed"
    answer: Answer = ask(cluster, "POST", f"{RUNS}/{run}/resume", "{}")
    assert answer.status == 200, answer.body
    assert json.loads(answer.body)["ended"] is None
    assert len(cluster.ended(run)["attempts"]) == 2
    assert ask(cluster, "POST", f"{RUNS}/default/99/resume", "{}").status == 404
