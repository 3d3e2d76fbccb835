"""Fixtures for tests of the page: one Chromium for all of them, and what its pages report."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Request, expect, sync_playwright

from tests.conftest import BUILD, PATIENCE, ROOT, Cluster, reserved_port

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
AXE = BUILD / "node" / "node_modules" / "axe-core" / "axe.min.js"
INDEX = ROOT / "web" / "dist" / "index.html"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = ""
    if not CHROMIUM.exists():
        reason = f"there is no {CHROMIUM}: install Debian's chromium"
    elif not INDEX.exists():
        reason = "npm could not install its packages when ./dev built the page"
    for item in items:
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


class Tab:
    """A page of the browser with cookies of its own, and what went wrong in it."""

    def __init__(self, browser: Browser, cluster: Cluster) -> None:
        self.cluster = cluster
        self.url = cluster.url()
        self.context = browser.new_context()
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._read_console)
        self.context.on("request", self._read_request)

    # The browser writes each answer from 400 on to the console: refused log-ins are no error of the
    # page.
    def _read_console(self, message: ConsoleMessage) -> None:
        is_answer = message.text.startswith("Failed to load resource")
        if message.type in ("error", "warning") and not is_answer:
            self.errors.append(message.text)

    def _read_request(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", "data:", "blob:")):
            self.foreign.append(request.url)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def log_in(self, token: str) -> None:
        self.go("/login")
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Log in", exact=True).first.click()

    def log_out(self) -> None:
        self.page.get_by_role("button", name="Log out", exact=True).click()

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE * 1000)

    def sees_form(self) -> None:
        field = self.page.get_by_label("Token", exact=True)
        expect(field).to_be_visible(timeout=PATIENCE * 1000)

    def reaches(self, path: str) -> None:
        self.page.wait_for_url(f"{self.url}{path}", timeout=PATIENCE * 1000)

    def cookie(self) -> dict[str, object]:
        (found,) = (c for c in self.context.cookies() if c["name"].startswith("lockstep_session"))
        return dict(found)

    def serious_faults(self) -> list[str]:
        """Faults that axe-core calls serious or critical."""
        self.page.evaluate(AXE.read_text())
        result = self.page.evaluate("axe.run()")
        return [
            f"{found['id']}: {found['help']} ({found['nodes'][0]['html']})"
            for found in result["violations"]
            if found["impact"] in ("serious", "critical")
        ]

    def close(self) -> None:
        self.context.close()
        assert self.errors == []
        assert self.foreign == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A daemon with a run, demo/1, that has ended well and logged a loss."""
    cluster = Cluster(tmp_path_factory.mktemp("page") / "home")
    with reserved_port() as port:  # the same after a restart
        cluster.serve("2x2", "--port", str(port))
        script = "import lockstep\nfor s in range(20): lockstep.log({'loss': 5.0 - s / 10}, step=s)"
        cluster.submit("--project", "demo", "--name", "first", "--", "python", "-c", script)
        assert cluster.ended("demo/1")["state"] == "succeeded"
        yield cluster
        cluster.close()


class OtherPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>another page</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_page() -> Iterator[str]:
    """The address of a page that is not the daemon's, on another port of its host."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def tab(browser: Browser, served: Cluster) -> Iterator[Tab]:
    opened = Tab(browser, served)
    yield opened
    opened.close()
