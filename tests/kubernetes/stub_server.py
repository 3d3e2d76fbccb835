"""A stub of the Kubernetes API server: the store over HTTPS, on a free port of this machine.

    with StubServer(folder) as server:
        api = Api(server.kubeconfig)

It speaks HTTP/1.1 with keep-alive, wants the bearer token of the kubeconfig, and has a certificate
of its own in `folder`. `faults` breaks what a test wants broken; docs/design/kubernetes.md says
what holds the stub to the behaviour of a real server.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import threading
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml
from tests.kubernetes.stub_faults import Fault, Faults
from tests.kubernetes.stub_jobs import JobController
from tests.kubernetes.stub_jobsets import JobSetController
from tests.kubernetes.stub_objects import ApiError, Object
from tests.kubernetes.stub_scheduler import Scheduler
from tests.kubernetes.stub_store import GROUPS, KINDS, WITHOUT_NAMESPACE, Store, as_watch_event

TOKEN = "stub-token"
BOOKMARK_INTERVAL = 0.5  # seconds
WATCH_TIME_MAX = 60.0

PATH = re.compile(
    r"/(?P<version>api/v1|apis/batch/v1|apis/jobset.x-k8s.io/v1alpha2)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>status))?)?"
)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_PATCH(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: Any) -> None:
        self.server.requests.append((self.command, self.path))

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.last_headers = self.headers
        fault = self.server.faults.next_for(self.command, self.path)
        try:
            self.act(body, fault)
        except ApiError as error:
            self.send(error.code, error.status(), fault)
        except (ConnectionError, ssl.SSLError, TimeoutError):
            self.close_connection = True

    def act(self, body: bytes, fault: Fault | None) -> None:
        if fault and fault.status:
            raise ApiError(fault.status, "injected by the test")
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            raise ApiError(401, "Unauthorized")
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        if url.path in ("/readyz", "/version"):
            return self.send(200, {"major": "1", "minor": "20", "gitVersion": "v1.20.0"}, fault)
        if (self.command, url.path) == ("POST", REVIEWS):
            return self.send(201, self.review(json.loads(body)), fault)
        found = PATH.fullmatch(url.path)
        if not found or not is_served(found["resource"], found["version"]):
            raise ApiError(404, "the server could not find the requested resource")
        target = {"namespace": "", "name": "", "subresource": ""} | {
            key: value for key, value in found.groupdict().items() if value
        }
        if target["namespace"] in self.server.forbidden:
            what = f'{target["resource"]} is forbidden in the namespace "{target["namespace"]}"'
            raise ApiError(403, what, "Forbidden")
        if query.get("watch") in ("true", "1"):
            return self.watch(target, query, fault)
        for _ in range(2 if fault and fault.repeats else 1):
            code, result = self.do(target, query, body)
        return self.send(code, result, fault)

    def review(self, asked: Object) -> Object:
        what = asked["spec"]["resourceAttributes"]
        denied = (what["verb"], what["resource"]) in self.server.denied
        return {**asked, "status": {"allowed": not denied}}

    def do(self, target: dict[str, str], query: dict[str, str], body: bytes) -> tuple[int, Object]:
        store, resource, namespace = self.server.store, target["resource"], target["namespace"]
        if namespace and resource in WITHOUT_NAMESPACE:
            raise ApiError(404, "the server could not find the requested resource")
        given = parse_body(body)
        where = (resource, namespace, target["name"])
        match self.command, bool(target["name"]):
            case "GET", False:
                selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
                return 200, store.list(resource, namespace, *selectors)
            case "GET", True:
                return 200, store.get(*where)
            case "POST", False:
                return 201, store.create(resource, namespace, given)
            case "PUT", True:
                return 200, store.update(*where, lambda _: given, target["subresource"])
            case "PATCH", True:
                if self.headers.get("Content-Type") not in PATCHES:
                    raise ApiError(415, f"the stub knows the patches {PATCHES}")
                return 200, store.patch(*where, given, target["subresource"])
            case "DELETE", True:
                in_query = (
                    {"gracePeriodSeconds": int(query["gracePeriodSeconds"])}
                    if ("gracePeriodSeconds" in query)
                    else {}
                )
                return 200, store.delete(*where, {**in_query, **given})
        raise ApiError(405, "the server does not allow this method on the requested resource")

    def send(self, code: int, value: Object, fault: Fault | None) -> None:
        if fault and fault.delay:
            time.sleep(fault.delay)
        if fault and fault.loses_answer:
            self.close_connection = True
            return
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if fault and fault.retry_after:
            self.send_header("Retry-After", str(fault.retry_after))
        self.end_headers()
        self.wfile.write(body)

    # A watch: JSON objects in the chunks of one answer.

    def watch(self, target: dict[str, str], query: dict[str, str], fault: Fault | None) -> None:
        store = self.server.store
        selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
        end = time.monotonic() + float(query.get("timeoutSeconds", WATCH_TIME_MAX))
        version = query.get("resourceVersion", "0")
        seen = store.version if version in ("", "0") else int(version)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent, told_version = 0, seen
        while not self.server.is_ending and time.monotonic() < end:
            try:
                events, seen = self.wait_for_events(seen, target)
            except ApiError as error:
                self.send_chunk({"type": "ERROR", "object": error.status()})
                break
            for event in events:
                if fault and fault.cuts_after and sent >= fault.cuts_after:
                    self.close_connection = True
                    return
                told = as_watch_event(event, *selectors)
                if told:
                    self.send_chunk(told)
                    sent, told_version = sent + 1, event[0]
            # The real server sends none, either, while nothing of this resource has changed.
            if seen > told_version and query.get("allowWatchBookmarks") in ("true", "1"):
                told_version = seen
                kind = KINDS[target["resource"]]
                metadata = {"resourceVersion": str(seen)}
                item = {"kind": kind, "apiVersion": "v1", "metadata": metadata}
                self.send_chunk({"type": "BOOKMARK", "object": item})
        self.wfile.write(b"0\r\n\r\n")

    def wait_for_events(self, seen: int, target: dict[str, str]) -> tuple[list[Any], int]:
        """Those after a version, or none after a while; and the version that they reach to, or
        that of other namespaces."""
        store = self.server.store
        with store.changed:
            if not store.events_after(seen, target["resource"], ""):
                store.changed.wait(BOOKMARK_INTERVAL)
            every = store.events_after(seen, target["resource"], "")
            events = store.events_after(seen, target["resource"], target["namespace"])
            return events, every[-1][0] if every else seen

    def send_chunk(self, value: Object) -> None:
        line = json.dumps(value).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()


def is_served(resource: str, version: str) -> bool:
    group = GROUPS.get(resource, "v1")
    return resource in KINDS and version == ("api/v1" if group == "v1" else f"apis/{group}")


def parse_body(body: bytes) -> Object:
    if not body:
        return {}
    try:
        given = json.loads(body)
    except ValueError as error:
        raise ApiError(400, f"the object is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise ApiError(400, "the object is no JSON object")
    return given


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    token = TOKEN
    is_ending = False

    def __init__(self, certificate: Path) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.store = Store()
        self.faults = Faults()
        self.requests: list[tuple[str, str]] = []  # method and path, of all so far
        self.last_headers = Message()
        self.forbidden: set[str] = set()  # namespaces whose objects are refused
        self.denied: set[tuple[str, str]] = set()  # verb and resource, in access reviews
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)

    def get_request(self) -> tuple[Any, Any]:
        """The handshake is left to the thread of the connection: a slow one holds up no other."""
        connection, address = super().get_request()
        connection.settimeout(WATCH_TIME_MAX)
        wrapped = self.context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are what tests make."""


class StubServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = make_certificate(folder)
        self.listener = Listener(self.certificate)
        self.store = self.listener.store
        self.faults = self.listener.faults
        JobController(self.store)
        JobSetController(self.store)
        Scheduler(self.store)
        self.url = f"https://127.0.0.1:{self.listener.server_address[1]}"
        self.kubeconfig = self.write_kubeconfig()
        self.thread = threading.Thread(target=self.listener.serve_forever, daemon=True)

    def __enter__(self) -> StubServer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.is_ending = True
        self.listener.shutdown()
        self.listener.server_close()
        self.thread.join()

    def forget(self) -> None:
        self.store.forget()

    def replace_token(self, token: str) -> None:
        """Requests with the old one are answered by 401; the kubeconfig has the new one."""
        self.listener.token = token
        self.write_kubeconfig()

    def write_kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stub", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.listener.token}}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "admin"}}],
            "current-context": "stub",
        }
        path.write_text(yaml.safe_dump(config))
        return path


def make_certificate(folder: Path) -> Path:
    """Key and self-signed certificate for 127.0.0.1 in one file."""
    path = folder / "server.pem"
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=stub"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(key.read_text() + certificate.read_text())
    return path
