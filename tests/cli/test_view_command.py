"""`lockstep view` and `lockstep ps --view`: the saved views of the page."""

from __future__ import annotations

import json

import pytest
from tests.api.calls import ask

from tests.conftest import Cluster


def test_a_view_is_saved_listed_used_and_removed(cluster: Cluster) -> None:
    run = cluster.submit("--project", "views", "--", "python", "-c", "pass", "--lr", "3")
    cluster.ended(run)
    assert cluster.ok("view", "save", "my runs", "-q", "project:none") == (
        "view my runs: project:none\n"
    )
    cluster.ok("view", "save", "my runs", "--query", "project:views lr=3")
    table = cluster.ok("view", "ls")
    assert table.splitlines()[0].split() == ["VIEW", "QUERY", "CHANGED"]
    assert "my runs" in table
    assert "project:views lr=3" in table
    listed = json.loads(cluster.ok("ps", "--view", "my runs", "--json"))
    assert [each["id"] for each in listed["runs"]] == [run]
    assert cluster.ok("view", "rm", "my runs") == "removed the view my runs\n"
    assert cluster.ok("view", "ls").startswith("no views; `lockstep view save")


def test_a_view_of_the_page_keeps_its_columns(cluster: Cluster) -> None:
    def text_of_view() -> str:
        return json.loads(cluster.ok("view", "ls", "--json"))["documents"][0]["text"]

    cluster.ok("view", "save", "best", "-q", "sort:-loss 'a & b'")
    assert text_of_view() == "q=sort%3A-loss%20%27a%20%26%20b%27"
    document = {"kind": "view", "name": "page", "text": "q=lr%3C1+x&columns=name%2Closs"}
    cluster.ok("view", "rm", "best")
    assert ask(cluster, "POST", "/api/v1/documents", json.dumps(document)).status == 200
    assert "lr<1 x" in cluster.ok("view", "ls")
    cluster.ok("view", "save", "page", "-q", "lr<2")
    assert text_of_view() == "columns=name%2Closs&q=lr%3C2"
    cluster.ok("view", "rm", "page")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ps", "--view", "none"), "there is no view 'none'; `lockstep view ls` lists yours"),
        (("view", "rm", "none"), "there is no view 'none'"),
        (("view", "rm"), "view rm: write the name of the view"),
        (("view", "save", "a"), "view save: write --query LINE"),
        (("view", "save", "a", "-q", "lr<x"), "`lr<x` compares with a number"),
        (("view", "ls", "a"), "`lockstep ps --view NAME` shows its runs"),
        (("view", "show"), "there is no action 'show': write one of ls|save|rm"),
        (("ps", "--view", "a", "-q", "gpt"), "--view"),
    ],
)
def test_a_wrong_call_says_what_to_write(
    cluster: Cluster, words: tuple[str, ...], message: str
) -> None:
    ended = cluster.command(*words)
    assert ended.returncode != 0
    assert message in ended.stderr
