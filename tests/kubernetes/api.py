"""A client of the Kubernetes API for tests: any server that a kubeconfig with a token names."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

Object = dict[str, Any]
PREFIXES = {"jobs": "/apis/batch/v1", "jobsets": "/apis/jobset.x-k8s.io/v1alpha2"}
ANSWER_TIME_MAX = 30.0  # seconds


class Refused(Exception):
    """An answer of 400 or more."""

    def __init__(self, code: int, status: Object, headers: dict[str, str]) -> None:
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.reason = status.get("reason", "")
        self.said = str(status.get("message", ""))
        self.headers = headers


def path_of(resource: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    prefix = PREFIXES.get(resource, "/api/v1")
    parts = [prefix, *(["namespaces", namespace] if namespace else []), resource]
    return "/".join([*parts, *filter(None, (name, subresource))])


class Api:
    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.read_kubeconfig()

    def read_kubeconfig(self) -> None:
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.address = urlsplit(cluster["server"])
        self.token = config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        elif "certificate-authority-data" in cluster:
            data = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self.tls.load_verify_locations(cadata=data)
        else:
            self.tls.load_verify_locations(cluster["certificate-authority"])

    def connect(self, patience: float = ANSWER_TIME_MAX) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self.address.hostname or "", self.address.port, context=self.tls, timeout=patience
        )

    def headers(self, kind: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": kind}

    def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        text = None if body is None else json.dumps(body)
        with closing(self.connect()) as connection:
            connection.request(method, path, text, self.headers(kind))
            answer = connection.getresponse()
            value = parsed(answer.read())
            if answer.status >= 400:
                raise Refused(answer.status, value, dict(answer.headers))
            return value

    def get(self, resource: str, namespace: str, name: str) -> Object:
        return self.call("GET", path_of(resource, namespace, name))

    def list(self, resource: str, namespace: str = "", **query: str) -> Object:
        return self.call("GET", f"{path_of(resource, namespace)}?{urlencode(query)}")

    def create(self, resource: str, namespace: str, item: Object) -> Object:
        return self.call("POST", path_of(resource, namespace), item)

    def replace(self, resource: str, namespace: str, item: Object) -> Object:
        name = item["metadata"]["name"]
        return self.call("PUT", path_of(resource, namespace, name), item)

    def patch(
        self, resource: str, namespace: str, name: str, change: Object, subresource: str = ""
    ) -> Object:
        path = path_of(resource, namespace, name, subresource)
        return self.call("PATCH", path, change, "application/merge-patch+json")

    def delete(self, resource: str, namespace: str, name: str, **options: Any) -> Object:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self.call("DELETE", path_of(resource, namespace, name), body)

    def watch(
        self, resource: str, namespace: str = "", patience: float = ANSWER_TIME_MAX, **query: str
    ) -> Iterator[Object]:
        """Events until the server ends the watch; ConnectionError if it is cut."""
        words = urlencode({"watch": "true", **query})
        with closing(self.connect(patience)) as connection:
            connection.request(
                "GET", f"{path_of(resource, namespace)}?{words}", headers=self.headers()
            )
            answer = connection.getresponse()
            if answer.status >= 400:
                raise Refused(answer.status, parsed(answer.read()), dict(answer.headers))
            begun = b""
            while part := read_part(answer):
                *lines, begun = (begun + part).split(b"\n")
                for line in lines:
                    yield json.loads(line)


def read_part(answer: http.client.HTTPResponse) -> bytes:
    """Some bytes; none at the end. `readline` would take a cut for the end."""
    try:
        return answer.read1()
    except (http.client.IncompleteRead, TimeoutError) as cut:
        raise ConnectionError(f"the watch was cut: {cut!r}") from cut


def parsed(body: bytes) -> Object:
    try:
        value = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}
