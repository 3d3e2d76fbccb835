"""Calls of a cluster's daemon over HTTP, well-formed ones and others."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from tests.conftest import PATIENCE, Cluster

Headers = dict[str, str]


def address(cluster: Cluster) -> tuple[str, int]:
    url = urlsplit(json.loads((cluster.home / "daemon.json").read_text())["url"])
    assert url.hostname and url.port
    return url.hostname, url.port


def user_token(cluster: Cluster) -> str:
    return (cluster.home / "token").read_text().strip()


def generation(cluster: Cluster) -> str:
    """The generation of the store that the daemon serves, the only one that was served here."""
    (name,) = json.loads((cluster.home / "stores.json").read_text())["issued"]
    return str(name)


def agent_token(cluster: Cluster, attempt: str, of: str = "") -> str:
    """The token that the daemon derives from its key (src/platform/host/keys.cc), for an attempt of
    the generation `of`; none: one from before stores had generations."""
    key = bytes.fromhex((cluster.home / "key").read_text().strip())
    words = f"agent:{of}:{attempt}" if of else f"agent:{attempt}"
    return hmac.new(key, words.encode(), hashlib.sha256).hexdigest()


def bearer(token: str) -> Headers:
    return {"Authorization": f"Bearer {token}"}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> str:
        """The message of an error, which must have the form of all errors."""
        assert self.headers["content-type"] == "application/json"
        answer = self.json()
        assert answer.keys() == {"error"} and answer["error"].keys() == {"code", "message"}
        message = answer["error"]["message"]
        assert isinstance(message, str) and message and "\n" not in message
        return message


def call(
    cluster: Cluster,
    method: str,
    target: str,
    body: bytes | str | None = None,
    headers: Headers | None = None,
) -> Answer:
    """One call on a connection of its own, with the headers as they are given."""
    connection = http.client.HTTPConnection(*address(cluster), timeout=PATIENCE)
    try:
        connection.request(method, target, body=body, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def ask(cluster: Cluster, method: str, target: str, body: bytes | str | None = None) -> Answer:
    """A call with the user's token; a body has the type JSON."""
    headers = bearer(user_token(cluster))
    if body is not None:
        headers["Content-Type"] = "application/json"
    return call(cluster, method, target, body, headers)


def connect(cluster: Cluster) -> socket.socket:
    return socket.create_connection(address(cluster), timeout=PATIENCE)


def raw(cluster: Cluster, words: bytes) -> Answer:
    """Sends the bytes as they are and reads one answer."""
    with connect(cluster) as connection:
        connection.sendall(words)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response)
