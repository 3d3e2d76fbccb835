"""One call to the daemon: it proves that it knows the token, gets the token, and answers.

Another program may use the port of a daemon that was killed. So the caller sends a nonce first, and
the token only after the right proof (docs/design/api.md).
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import io
import json
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from lockstep._client.daemon import Daemon, DaemonError

TIMEOUT = 30.0  # seconds for a call, from the connection to the last byte
_ANSWER_MAX = 64 << 20  # bytes
_PART = 1 << 16  # bytes that are read at once
_USER_TOKEN = re.compile(r"lst_([A-Za-z0-9]{12})_([A-Za-z0-9]{43})")
_FINGERPRINT = re.compile(r"sha256:[0-9A-Fa-f:]+")


def get(
    daemon: Daemon,
    path: list[str],
    query: Mapping[str, object | None] | None = None,
    timeout: float = TIMEOUT,
) -> Any:
    """The answer of ``GET /api/v1/PATH``, read from JSON.

    Args:
        path: its words, not encoded, such as ["runs", "demo", "7"].
        query: parameters; those that are None are left out.
        timeout: seconds for everything.

    Raises:
        DaemonError: no answer, a refusal, or an answer that cannot be read.
    """
    shown = {name: value for name, value in (query or {}).items() if value is not None}
    target = _target(path)
    if shown:
        target += "?" + urlencode(shown, quote_via=quote)
    return _made(daemon, "GET", target, None, timeout)


def post(
    daemon: Daemon, path: list[str], body: Mapping[str, object], timeout: float = TIMEOUT
) -> Any:
    """The answer of ``POST /api/v1/PATH`` with this body, as ``get`` has it."""
    return _made(daemon, "POST", _target(path), json.dumps(dict(body)).encode(), timeout)


def _target(path: list[str]) -> str:
    return "/api/v1/" + "/".join(quote(word, safe="") for word in path)


def _made(daemon: Daemon, method: str, target: str, body: bytes | None, timeout: float) -> Any:
    call = _Call(daemon, time.monotonic() + timeout)
    try:
        call.connect()
        call.check_proof()
        headers = {"Authorization": f"Bearer {daemon.token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return call.answer(target, headers, method, body)
    except TimeoutError:
        raise DaemonError(
            "timeout",
            f"{call.place} does not answer within {timeout:g} s; it may be stopped or overloaded",
        ) from None
    except ssl.SSLError as error:
        raise DaemonError(
            "unavailable", f"{call.place} is not trusted: {error.reason or error}"
        ) from None
    except OSError as error:
        raise DaemonError(
            "unavailable",
            f"{call.place} does not answer ({error.strerror or error}); is it running? `lockstep "
            "serve` starts one",
        ) from None
    except http.client.HTTPException as error:
        raise DaemonError(
            "corrupt", f"{call.place}: what answers there is no daemon ({error!r})"
        ) from None
    finally:
        call.close()


class _Call:
    def __init__(self, daemon: Daemon, deadline: float) -> None:
        self._daemon = daemon
        self._deadline = deadline
        self._http: http.client.HTTPConnection | None = None
        url, _, self._fingerprint = daemon.url.partition("#")
        try:
            parts = urlsplit(url)
            self._host, port = parts.hostname or "", parts.port
        except ValueError:
            raise self._bad_url() from None
        if parts.scheme not in ("http", "https") or not self._host or parts.path not in ("", "/"):
            raise self._bad_url()
        if self._fingerprint and not _FINGERPRINT.fullmatch(self._fingerprint):
            raise self._bad_url()
        self._is_encrypted = parts.scheme == "https"
        if self._fingerprint and not self._is_encrypted:
            raise self._bad_url()  # plain HTTP has no certificate that could be compared
        self._port = port or (443 if self._is_encrypted else 80)
        self._url = url
        self.place = f"{daemon.name} at {url}"

    def _bad_url(self) -> DaemonError:
        return DaemonError(
            "invalid",
            f"{self._daemon.name}: '{self._daemon.url}' is no address of a daemon; write "
            "http://HOST:PORT or https://HOST:PORT#sha256:FINGERPRINT",
        )

    def connect(self) -> None:
        self._http = http.client.HTTPConnection(self._host, self._port, timeout=self._left())
        # Otherwise http.client opens a plain connection where the daemon has closed this one, and
        # sends the token there, without TLS and without a proof.
        self._http.auto_open = 0
        sock = self._trusted() if self._is_encrypted else self._plain()
        self._http.sock = _TimedSocket(sock, self._left)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()

    def check_proof(self) -> None:
        nonce = secrets.token_hex(32)
        user = _USER_TOKEN.fullmatch(self._daemon.token)
        query = {"nonce": nonce} | ({"token": user[1]} if user else {})
        health = self.answer("/health?" + urlencode(query), {})
        key = hashlib.sha256((user[2] if user else self._daemon.token).encode()).digest()
        right = hmac.new(key, f"daemon at port {self._port}: {nonce}".encode(), "sha256")
        proof = health.get("proof") if isinstance(health, dict) else None
        if isinstance(proof, str) and hmac.compare_digest(proof, right.hexdigest()):
            return
        if self._is_encrypted:
            raise DaemonError(
                "unavailable",
                f"{self.place} does not accept this token; log in again with `lockstep login`",
            )
        raise DaemonError(
            "unavailable",
            f"what answers at {self._url} is not the daemon that was started there; start it with "
            "`lockstep serve`, or name the right one by LOCKSTEP_URL",
        )

    def answer(
        self,
        target: str,
        headers: Mapping[str, str],
        method: str = "GET",
        body: bytes | None = None,
    ) -> Any:
        assert self._http is not None
        if self._http.sock is None:
            raise DaemonError(
                "unavailable",
                f"{self.place} closes the connection after its proof, so the token is not sent; "
                "call the daemon itself, or a proxy that keeps connections open",
            )
        self._http.request(method, target, body=body, headers=dict(headers))
        response = self._http.getresponse()
        content = self._body(response)
        if response.status >= 400:
            raise self._refusal(response.status, content)
        try:
            return json.loads(content)
        except ValueError:
            raise DaemonError("corrupt", f"{self.place}: what answers there is no daemon") from None

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            part = response.read(_PART)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > _ANSWER_MAX:
                raise DaemonError(
                    "corrupt", f"{self.place} answers with more than {_ANSWER_MAX >> 20} MiB"
                )

    def _refusal(self, status: int, body: bytes) -> DaemonError:
        try:
            error = json.loads(body)["error"]
            return DaemonError(error["code"], error["message"])
        except (ValueError, KeyError, TypeError):
            return DaemonError("corrupt", f"{self.place} answers with the status {status}")

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _plain(self) -> socket.socket:
        made = socket.create_connection((self._host, self._port), timeout=self._left())
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _trusted(self) -> ssl.SSLSocket:
        if not self._fingerprint:
            context = ssl.create_default_context(cadata=self._daemon.authorities or None)
            return context.wrap_socket(self._plain(), server_hostname=self._host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        first = context.wrap_socket(self._plain(), server_hostname=self._host)
        wanted = self._fingerprint.partition(":")[2].replace(":", "").lower()
        chain = _chain_of(first)
        first.close()
        if chain and _sha256(chain[0]) == wanted:
            return self._by_certificate(chain[0])
        for certificate in chain[1:]:
            if _sha256(certificate) == wanted:
                return self._by_authority(certificate)
        raise DaemonError(
            "unavailable",
            f"{self.place} has another certificate than sha256:{wanted}; if its operator has "
            "replaced it, log in again with the new address",
        )

    def _by_certificate(self, certificate: bytes) -> ssl.SSLSocket:
        """Its name does not count, and its time does, as in the client in C++."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=certificate)
        return context.wrap_socket(self._plain(), server_hostname=self._host)

    def _by_authority(self, certificate: bytes) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=certificate)
        return context.wrap_socket(self._plain(), server_hostname=self._host)


class _TimedSocket:
    """The calls of a socket that http.client makes. Each wait ends at the deadline of the whole
    call: the limit of a socket alone is that of one recv()."""

    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock = sock
        self._left = left

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._left())
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._left))

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock = sock
        self._left = left
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _sha256(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def _chain_of(connection: ssl.SSLSocket) -> list[bytes]:
    """The certificates that the server sent, in DER. Python 3.13 has a public call for it."""
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    inner = connection._sslobj  # type: ignore[attr-defined]
    chain = inner.get_unverified_chain() or []
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain]
