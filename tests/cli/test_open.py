"""`lockstep open`: the page of the daemon in a browser, which is logged in by a code."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.api.calls import Answer, call

from tests.conftest import Cluster

LAUNCHER = """#!/bin/sh
cp "$1" "$HOME/opened.html"
stat -c %a "$1" > "$HOME/mode"
"""


def exchange(cluster: Cluster, address: str) -> Answer:
    code = parse_qs(urlsplit(address).fragment)["code"][0]
    body = json.dumps({"code": code})
    headers = {"Content-Type": "application/json"}
    return call(cluster, "POST", "/api/v1/session", body, headers)


def put_browser_on_path(cluster: Cluster, folder: Path, script: str = LAUNCHER) -> None:
    programs = folder / "programs"
    programs.mkdir()
    launcher = programs / "xdg-open"
    launcher.write_text(script)
    launcher.chmod(0o755)
    cluster.environment["PATH"] = f"{programs}:{cluster.environment['PATH']}"
    cluster.environment |= {"DISPLAY": ":0", "HOME": str(folder)}
    for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME"):
        cluster.environment.pop(name, None)


def without_screen(cluster: Cluster) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        cluster.environment.pop(name, None)


def test_the_printed_address_has_a_code_that_works_once_and_no_token(cluster: Cluster) -> None:
    address = cluster.ok("open", "--print").strip()
    assert address.startswith(f"{cluster.url()}/login#code=")
    assert address.endswith("&next=%2F")
    assert cluster.token() not in address and "lst_" not in address
    first = exchange(cluster, address)
    assert first.status == 200
    me: dict[str, Any] = json.loads(cluster.ok("whoami", "--json"))
    assert first.json()["user"] == me["user"]
    assert exchange(cluster, address).status == 403


def test_without_a_screen_the_address_is_printed_with_what_to_do(cluster: Cluster) -> None:
    without_screen(cluster)
    done = cluster.command("open")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{cluster.url()}/login#code=")
    assert "there is no browser here" in done.stderr and "300 s" in done.stderr


def test_a_run_is_the_view_that_opens(cluster: Cluster) -> None:
    run = cluster.submit("--", "true")
    address = cluster.ok("open", run, "--print").strip()
    assert address.endswith(f"&next=%2Fruns%2F{run.replace('/', '%2F')}")
    refused = cluster.command("open", "demo/99", "--print")
    assert refused.returncode != 0 and "there is no run demo/99" in refused.stderr
    assert refused.stdout == ""


def test_a_browser_gets_the_address_in_a_file_that_no_other_user_reads(
    cluster: Cluster, tmp_path: Path
) -> None:
    put_browser_on_path(cluster, tmp_path)
    said = cluster.ok("open")
    assert said.startswith(f"a browser opens {cluster.url()}/; if none appears")
    assert (tmp_path / "mode").read_text().strip() == "600"
    page = (tmp_path / "opened.html").read_text()
    found = re.search(r'url=([^"]+)"', page)
    assert found
    assert exchange(cluster, found[1].replace("&amp;", "&")).status == 200


def test_a_browser_that_xdg_open_runs_itself_is_left_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    put_browser_on_path(cluster, tmp_path, '#!/bin/sh\necho $$ > "$HOME/pid"\nexec sleep 60\n')
    assert cluster.ok("open").startswith("a browser opens")
    browser = int((tmp_path / "pid").read_text())
    os.kill(browser, signal.SIGKILL)  # fails if it has ended


def test_a_browser_that_fails_leaves_the_address_printed(cluster: Cluster, tmp_path: Path) -> None:
    put_browser_on_path(cluster, tmp_path, "#!/bin/sh\nexit 3\n")
    done = cluster.command("open")
    assert done.returncode == 0 and done.stdout.startswith(f"{cluster.url()}/login#code=")
