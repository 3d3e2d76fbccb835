"""The issuer of OpenID Connect for these tests, npm's oidc-provider, and a browser at it."""

from __future__ import annotations

import os
import subprocess
from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

from tests.conftest import BUILD, PATIENCE, ROOT, wait_until

PROVIDER = ROOT / "tests" / "oidc" / "provider" / "provider.mjs"


class Issuer:
    def __init__(self, port: int, redirect_uri: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [str(BUILD / "venv" / "bin" / "node"), str(PROVIDER), str(port), str(BUILD / "node")],
            env={**os.environ, "REDIRECT_URI": redirect_uri, "NODE_NO_WARNINGS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until("the issuer answers", self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None, "the issuer has ended; run provider.mjs by hand"
        try:
            return requests.get(f"{self.url}/jwks", timeout=PATIENCE).ok
        except requests.ConnectionError:
            return False

    def replace_next_token(self, kind: str) -> None:
        """Its next ID token is not the one that it made; provider.mjs has the kinds."""
        done = requests.get(f"{self.url}/test/next", {"kind": kind}, timeout=PATIENCE)
        assert done.status_code == 204

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Form(HTMLParser):
    """The first form of a page: its address, and its fields with their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = found.get("action") or ""
        name = found.get("name")
        if tag == "input" and name:
            self.fields[name] = found.get("value") or ""


class Browser:
    """It fills each form as this user, and follows it until there is none."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.session = requests.Session()

    def agree(self, url: str) -> requests.Response:
        page = self.session.get(url, timeout=PATIENCE)
        for _ in range(10):
            form = Form(page.text)
            if form.action is None or page.status_code >= 400:
                return page
            fields = {**form.fields}
            if "login" in fields:
                fields |= {"login": self.user, "password": "any"}
            page = self.session.post(urljoin(page.url, form.action), fields, timeout=PATIENCE)
        raise AssertionError(f"too many forms; the last page is {page.text}")
