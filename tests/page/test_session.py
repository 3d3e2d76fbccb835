"""Logging in to the page and out of it, in Chromium, over a real daemon."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.conftest import PATIENCE, Cluster
from tests.page.conftest import AXE, Tab


def link(cluster: Cluster, *words: str) -> str:
    """The path of the address that `lockstep open` prints."""
    return cluster.ok("open", "--print", *words).strip().removeprefix(cluster.url())


def user(cluster: Cluster) -> str:
    return str(json.loads(cluster.ok("whoami", "--json"))["user"])


def sessions(cluster: Cluster) -> int:
    tokens = json.loads(cluster.ok("token", "ls", "--json"))["tokens"]
    return sum(token["name"] == "log-in to the page" for token in tokens)


def test_a_token_logs_in_and_the_runs_are_there(tab: Tab) -> None:
    tab.log_in(tab.cluster.token())
    tab.reaches("/")
    tab.sees("demo/1")
    tab.sees(user(tab.cluster))


def test_scripts_cannot_read_the_cookie_and_no_token_is_in_it_or_stored(tab: Tab) -> None:
    tab.log_in(tab.cluster.token())
    tab.sees("demo/1")
    cookie = tab.cookie()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert tab.cluster.token() not in str(cookie["value"])
    assert "lockstep_session" not in tab.page.evaluate("document.cookie")
    stored = tab.page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert "lst_" not in stored and tab.cluster.token() not in stored


def test_a_wrong_token_is_refused_with_the_reason(tab: Tab) -> None:
    tab.log_in("lst_this_is_no_token")
    expect(tab.page.get_by_role("alert").first).to_contain_text("the token is wrong")
    tab.sees_form()
    assert tab.context.cookies() == []


def test_without_a_log_in_a_run_shows_the_form(tab: Tab) -> None:
    tab.go("/runs/demo/1")
    tab.sees_form()


def test_a_link_of_the_command_logs_in_and_leaves_no_secret(tab: Tab) -> None:
    path = link(tab.cluster, "demo/1")
    tab.go(path)
    tab.reaches("/runs/demo/1")
    heading = tab.page.get_by_role("heading", name="demo/1").first
    expect(heading).to_be_visible(timeout=PATIENCE * 1000)
    code = path.partition("code=")[2].partition("&")[0]
    assert code and tab.page.evaluate("history.length") <= 2
    tab.page.go_back()
    assert code not in tab.page.url


def test_a_link_works_once(tab: Tab) -> None:
    path = link(tab.cluster)
    tab.go(path)
    tab.sees("demo/1")
    tab.context.clear_cookies()
    tab.page.goto("about:blank")
    tab.go(path)
    expect(tab.page.get_by_role("alert").first).to_contain_text("lockstep open")
    tab.sees_form()


def test_the_log_out_ends_the_session_in_the_daemon_too(tab: Tab) -> None:
    before = sessions(tab.cluster)
    tab.log_in(tab.cluster.token())
    tab.sees("demo/1")
    assert sessions(tab.cluster) == before + 1
    tab.log_out()
    tab.sees_form()
    assert tab.context.cookies() == []
    assert sessions(tab.cluster) == before
    tab.go("/runs/demo/1")
    tab.sees_form()


def test_a_restart_of_the_daemon_ends_no_session(tab: Tab) -> None:
    tab.log_in(tab.cluster.token())
    tab.sees("demo/1")
    tab.cluster.kill_daemon()
    tab.cluster.ok("ps")  # starts the next one, on the same port
    tab.go("/runs/demo/1")
    heading = tab.page.get_by_role("heading", name="demo/1").first
    expect(heading).to_be_visible(timeout=PATIENCE * 1000)


@pytest.mark.skipif(not AXE.exists(), reason="npm has not installed axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_and_the_runs_have_no_serious_fault_of_accessibility(
    tab: Tab, scheme: Literal["light", "dark"]
) -> None:
    tab.page.emulate_media(color_scheme=scheme)
    tab.go("/login")
    tab.sees_form()
    assert tab.serious_faults() == []
    tab.log_in(tab.cluster.token())
    tab.sees("demo/1")
    assert tab.serious_faults() == []


def test_a_page_of_another_port_cannot_use_the_session(tab: Tab, other_page: str) -> None:
    tab.log_in(tab.cluster.token())
    tab.sees("demo/1")
    before = sessions(tab.cluster)
    tab.page.goto(other_page)
    call = """([url, options]) => fetch(url, options).then(a => a.status, () => 'refused')"""
    # The browser asks first, and the daemon agrees to no header: the call is never sent.
    asked = {"method": "POST", "credentials": "include", "headers": {"X-Lockstep-Page": "1"}}
    assert tab.page.evaluate(call, [tab.url + "/api/v1/session/code", asked]) == "refused"
    with_cookie = {"credentials": "include", "mode": "no-cors"}
    # These calls are sent, with the cookie: without it the answer would be 401.
    for method, path, options in (
        ("GET", "/api/v1/whoami", with_cookie),
        ("GET", "/api/v1/tokens", with_cookie),
        ("POST", "/api/v1/session/code", with_cookie),
    ):
        with tab.page.expect_response(tab.url + path) as answered:
            tab.page.evaluate(call, [tab.url + path, {"method": method, **options}])
        assert answered.value.status == 403, (method, path)
    assert sessions(tab.cluster) == before
    tab.foreign.clear()
    tab.errors.clear()


def test_the_session_ends_with_the_token_that_made_it(tab: Tab) -> None:
    made = tab.cluster.ok("token", "create", "--name", "laptop")
    token = made.split()[-1]
    tab.log_in(token)
    tab.sees("demo/1")
    tab.cluster.ok("token", "revoke", token.split("_")[1])
    tab.go("/")
    tab.sees_form()
