"""Log-ins at an issuer of OpenID Connect, npm's oidc-provider, by both flows."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from tests.api.calls import bearer, call
from tests.oidc.provider import Browser, Issuer

from tests.conftest import BUILD, PATIENCE, PROGRAM, Cluster, Laptop, reserved_port

pytestmark = pytest.mark.skipif(
    not (BUILD / "node" / "node_modules" / "oidc-provider").exists(),
    reason="npm's registry did not answer when ./dev installed the packages of tests",
)

ROLES = """\
groups:
  ml-team: {projects: {speech: member}}
  leads: {projects: {speech: manager, vision: viewer}}
  ops: {admin: true}
"""


class Site:
    """A daemon whose users log in at the issuer."""

    def __init__(self, folder: Path) -> None:
        self.ports = ExitStack()
        daemon_port, issuer_port = (self.ports.enter_context(reserved_port()) for _ in range(2))
        self.issuer = Issuer(issuer_port, f"http://127.0.0.1:{daemon_port}/login/oidc/callback")
        self.roles = folder / "roles.yaml"
        self.roles.write_text(ROLES)
        secret = folder / "secret"
        secret.write_text("the client's secret\n")
        secret.chmod(0o600)
        self.cluster = Cluster(folder / "home")
        self.cluster.serve(
            "1x1",
            *("--port", str(daemon_port), "--oidc-issuer", self.issuer.url),
            *("--oidc-client", "lockstep", "--oidc-secret-file", str(secret)),
            *("--oidc-roles", str(self.roles)),
        )
        for project in ("speech", "vision"):
            self.cluster.ok("project", "add", project)

    def log_in_by_browser(self, user: str) -> requests.Response:
        """The daemon's own answer; after a log-in it leads to the page."""
        page = Browser(user).agree(f"{self.cluster.url()}/login/oidc")
        return page.history[-1] if page.url == f"{self.cluster.url()}/" else page

    def close(self) -> None:
        self.cluster.close()
        self.issuer.close()
        self.ports.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("oidc"))
    yield made
    made.close()


def begin_by_command(site: Site, laptop: Laptop) -> tuple[subprocess.Popen[str], str]:
    """The command, and the address that it shows."""
    command = subprocess.Popen(
        [str(PROGRAM), "login", site.cluster.url(), "--oidc"],
        env=laptop.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr
    shown = ""
    while not (found := re.search(r"or open (\S+)", shown)):
        line = command.stderr.readline()
        assert line, shown
        shown += line
    return command, found[1]


def test_a_command_logs_in_by_the_device_flow(site: Site, laptop: Laptop) -> None:
    command, address = begin_by_command(site, laptop)
    Browser("lea").agree(address)
    said, errors = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0 and "logged in as lea" in said, errors
    self = json.loads(laptop.ok("whoami", "--json"))
    assert self["projects"] == {"lea": "manager", "speech": "manager", "vision": "viewer"}
    token = json.loads(laptop.ok("token", "ls", "--json"))["tokens"][0]
    assert token["name"] == "log-in by OIDC" and token["ends"]
    laptop.ok("logout")


def test_a_command_reports_a_user_that_may_not_log_in(site: Site, laptop: Laptop) -> None:
    command, address = begin_by_command(site, laptop)
    Browser("eve").agree(address)
    _, errors = command.communicate(timeout=PATIENCE)
    assert command.returncode != 0 and "eve is in no group that may log in" in errors
    assert not laptop.profiles.exists()


def test_a_browser_logs_in_by_the_code_flow_and_its_cookie_is_for_pages_of_the_daemon(
    site: Site,
) -> None:
    browser = Browser("ann")
    page = browser.agree(f"{site.cluster.url()}/login/oidc")
    assert page.url == f"{site.cluster.url()}/"
    callback = page.history[-1]
    assert callback.status_code == 302 and "logged in as ann" in callback.text
    set_cookie = callback.headers["Set-Cookie"]
    assert "HttpOnly" in set_cookie and "SameSite=Strict" in set_cookie
    name = f"lockstep_session_{site.cluster.daemon_port()}"
    token = browser.session.cookies[name]
    assert token.startswith("lst_")
    cookie = {"Cookie": f"a=b; {name}={token}"}
    for headers, status in (
        ({**cookie, "Sec-Fetch-Site": "same-origin"}, 200),
        ({**cookie, "Sec-Fetch-Site": "same-site"}, 403),
        ({**cookie, "Sec-Fetch-Site": "cross-site"}, 403),
        (cookie, 200),
        (bearer(token), 200),
    ):
        answer = call(site.cluster, "GET", "/api/v1/whoami", headers=headers)
        assert answer.status == status, headers
    self = call(site.cluster, "GET", "/api/v1/whoami", headers=bearer(token)).json()
    assert self["user"] == "ann" and self["projects"] == {"ann": "manager", "speech": "member"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("forged", "it is forged"),
        ("unsigned", "the ID token"),
        ("ended", "the ID token ended at"),
        ("late", "set the clock if it is ahead"),
        ("early", "it is behind the issuer's; set it"),
        ("foreign", "is for another client"),
        ("unknown", "the issuer has no key"),
        ("replayed", "is of another log-in"),
    ],
)
def test_an_id_token_that_the_issuer_did_not_make_for_this_log_in_is_refused(
    kind: str, reason: str, site: Site
) -> None:
    site.issuer.replace_next_token(kind)
    page = site.log_in_by_browser("ann")
    assert page.status_code == 403 and reason in page.text
    assert "Set-Cookie" not in page.headers


def test_a_callback_is_for_the_browser_that_began(site: Site) -> None:
    begun = requests.get(
        f"{site.cluster.url()}/login/oidc", allow_redirects=False, timeout=PATIENCE
    )
    assert begun.status_code == 302 and begun.headers["Location"].startswith(site.issuer.url)
    assert "SameSite=Lax" in begun.headers["Set-Cookie"]
    state = re.search(r"[?&]state=([^&]+)", begun.headers["Location"])
    assert state
    for query in (f"?state={state[1]}&code=x", "?state=x&code=x", "?error=access_denied", ""):
        refused = requests.get(f"{site.cluster.url()}/login/oidc/callback{query}", timeout=PATIENCE)
        assert refused.status_code == 403, query


def test_a_change_of_the_table_holds_from_the_next_log_in_on(site: Site) -> None:
    assert site.log_in_by_browser("olga").status_code == 302
    users = {
        user["name"]: user for user in json.loads(site.cluster.ok("user", "ls", "--json"))["users"]
    }
    assert users["olga"]["admin"] and users["olga"]["oidc_subject"].endswith(" olga")
    site.roles.write_text(
        "groups: {ops: {projects: {vision: member}, admin: false}, x: {admin: true}}"
    )
    assert site.log_in_by_browser("olga").status_code == 302
    user = next(
        user
        for user in json.loads(site.cluster.ok("user", "ls", "--json"))["users"]
        if user["name"] == "olga"
    )
    assert not user["admin"] and user["projects"]["vision"] == "member"
    site.roles.write_text("groups: [")
    broken = site.log_in_by_browser("olga")
    assert broken.status_code == 400 and str(site.roles) in broken.text
    site.roles.write_text(ROLES)


def test_a_name_that_another_user_has_is_not_taken_over(site: Site) -> None:
    site.roles.write_text('groups: {"*": {}}')
    site.cluster.ok("user", "add", "frank")
    refused = site.log_in_by_browser("frank")
    assert refused.status_code == 403
    command = re.search(r"`lockstep (user link frank frank)`", refused.text)
    assert command, refused.text
    site.cluster.ok(*command[1].split())
    assert "logged in as frank" in site.log_in_by_browser("frank").text
    site.roles.write_text(ROLES)


def test_an_issuer_that_is_away_is_named(site: Site, laptop: Laptop, tmp_path: Path) -> None:
    other = Cluster(tmp_path / "home")
    with reserved_port() as port:
        issuer = f"http://127.0.0.1:{port}"
        other.serve("1x1", "--oidc-issuer", issuer, "--oidc-client", "lockstep")
        try:
            refused = laptop.command("login", other.url(), "--oidc")
            assert refused.returncode != 0 and issuer in refused.stderr
        finally:
            other.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--oidc-issuer", "http://id.example", "--oidc-client", "x"], "is not https"),
        (["--oidc-issuer", "https://id.example"], "belong together"),
        (["--oidc-roles", "x"], "need --oidc-issuer"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], reason: str, tmp_path: Path) -> None:
    refused = Cluster(tmp_path / "home").command("serve", "--detach", *words)
    assert refused.returncode == 2 and reason in refused.stderr, refused.stderr
