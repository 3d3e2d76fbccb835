"""Pages without their browser: the requests that a page has made, again and again.

Browsers of fifty pages that are drawn take more cores than a machine of the bench has, and pages
that wait for a core ask less often.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from _insight.connection import Connection
from playwright.sync_api import Page, Request

STREAM = "/api/v1/events"
PROCESSES = 5


@dataclass(frozen=True)
class Recording:
    """Requests of a page as (seconds since the begin, target), for `span` seconds."""

    requests: list[tuple[float, str]]
    span: float


def record(page: Page, span: float) -> Recording:
    requests: list[tuple[float, str]] = []
    begun = time.monotonic()

    def keep(request: Request) -> None:
        url = urlsplit(request.url)
        requests.append((time.monotonic() - begun, f"{url.path}?{url.query}".rstrip("?")))

    page.on("request", keep)
    page.wait_for_timeout(1000 * span)
    page.remove_listener("request", keep)
    return Recording(requests, span)


@contextlib.contextmanager
def readers(
    address: tuple[str, int], token: str, recording: Recording, pages: int
) -> Iterator[None]:
    """So many pages, each with a stream of events, until the end of the block."""
    share = [pages // PROCESSES + (each < pages % PROCESSES) for each in range(PROCESSES)]
    processes = [
        multiprocessing.Process(target=_read, args=(address, token, recording, count), daemon=True)
        for count in share
    ]
    for process in processes:
        process.start()
    try:
        yield
        if any(not process.is_alive() for process in processes):
            raise RuntimeError("the requests of a page failed")
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _read(address: tuple[str, int], token: str, recording: Recording, pages: int) -> None:
    failures: list[BaseException] = []

    def guarded(page: int) -> None:
        try:
            _repeat(address, token, recording, recording.span * page / pages)
        except (OSError, RuntimeError) as error:
            failures.append(error)

    for page in range(pages):
        threading.Thread(target=_drain, args=(address, token), daemon=True).start()
        threading.Thread(target=guarded, args=(page,), daemon=True).start()
    while not failures:
        time.sleep(0.1)
    raise failures[0]


def _repeat(address: tuple[str, int], token: str, recording: Recording, delay: float) -> None:
    connection = Connection(address, token)
    begun = time.monotonic() + delay
    while True:
        for after, target in recording.requests:
            time.sleep(max(0.0, begun + after - time.monotonic()))
            connection.send(connection.request("GET", target))
        begun += recording.span


def _drain(address: tuple[str, int], token: str) -> None:
    stream = socket.create_connection(address)
    head = f"GET {STREAM} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
    head += f"Accept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
    stream.sendall(head.encode())
    while stream.recv(65536):
        pass
