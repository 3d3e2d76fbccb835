"""tools/check_docs on tiny checkouts: what each rule finds, where, and what it accepts."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.tools.scripts import findings_of, script

CHECK = script("check_docs")


@dataclass
class Tree:
    root: Path

    def write(self, path: str, *lines: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))

    def findings(self) -> list[str]:
        return findings_of(CHECK, self.root)

    def of_page(self, *lines: str) -> list[str]:
        """The findings of a page in docs/guide with these lines."""
        self.write("docs/guide/page.md", *lines)
        return [each.removeprefix("docs/guide/page.md:") for each in self.findings()]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Some sources, and pages without a finding."""
    made = Tree(tmp_path)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=30)
    made.write(".gitignore", "/build/")
    made.write("build/log.md", "")
    made.write("src/comm/ring.h", "namespace comm { struct HostGroup; }", "size_ step kSlots")
    made.write("src/comm/ring.cc", "Result<void> all_reduce();")
    made.write("src/comm/tcp/rail.cc", "TEST(Rails, AFreeRailIsTakenFirst) {}")
    made.write("tools/check_one", "")
    made.write("README.md", "# Name", "[guide](docs/guide/start.md#two-words)", "`HostGroup`")
    made.write(
        "docs/guide/start.md", "# Two words!", "## The `step()` of [it](x.md)", "# Two words"
    )
    made.write("docs/guide/x.md")
    return made


def test_a_tree_whose_pages_name_what_exists_has_no_finding(tree: Tree) -> None:
    assert tree.findings() == []


@pytest.mark.parametrize("link", ["gone.md", "../gone/", "../../build/log.md", "../../../up.md"])
def test_a_link_to_no_file_is_found_at_its_line(tree: Tree, link: str) -> None:
    assert tree.of_page("", f"See [it]({link}).") == [
        f"2: the link {link} leads to no file; correct or remove it"
    ]


@pytest.mark.parametrize(
    "link",
    [
        "start.md",
        "../guide",
        "/README.md",
        "../../src/comm/ring.h#L3",
        "start.md#the-step-of-it",
        "start.md#two-words-1",
        "#below",
        "https://example.org/gone.md#there",
        "mailto:a@example.org",
    ],
)
def test_links_to_files_folders_headings_and_other_sites_are_accepted(
    tree: Tree, link: str
) -> None:
    assert tree.of_page(f"[`it`]({link})", "", "# Below") == []


def test_a_link_to_a_heading_that_no_page_has_is_found(tree: Tree) -> None:
    assert tree.of_page("[it](start.md#three) [this](#there)", "```", "# There", "```") == [
        "1: docs/guide/page.md has no heading for the link #there; correct the anchor",
        "1: docs/guide/start.md has no heading for the link start.md#three; correct the anchor",
    ]


def test_definitions_of_links_and_pictures_are_links_too(tree: Tree) -> None:
    assert len(tree.of_page("[it]: gone.md", "![a picture](gone.svg)", '<img src="gone.png">')) == 3


@pytest.mark.parametrize(
    "path",
    [
        "src/comm/tree.h",
        "comm/tree.h",
        "comm/fabric/",
        "comm/tcp/*.h",
        "src/comm/{ring,tree}.cc",
        "tools/check_two",
        "tcp/lane",
        "tree.h",
        "comm/tree.h:12",
    ],
)
def test_a_path_that_does_not_exist_is_found(tree: Tree, path: str) -> None:
    assert tree.of_page("Read", f"`{path}`.") == [
        f"2: the path `{path}` does not exist; name what replaced it"
    ]


@pytest.mark.parametrize(
    "path",
    [
        "src/comm/ring.h",
        "comm/ring.{h,cc}",
        "comm/ring",
        "comm/ring.h:12",
        "tcp/rail",
        "rail.cc",
        "src/comm/",
        "src/*/ring.h",
        "src/NAME/<part>/rail.cc",
        "*.cc",
        "tools/check_one",
        "build/logs/test",
        "/proc/PID/stat",
        "demo/1.2",
        "daemon.json",
        "./dev test tests/gone",
    ],
)
def test_paths_that_exist_and_what_is_no_path_of_the_repository_are_accepted(
    tree: Tree, path: str
) -> None:
    assert tree.of_page(f"`{path}`") == []


@pytest.mark.parametrize(
    ("span", "word"),
    [
        ("HostGruop", "HostGruop"),
        ("HostGroup::stepp", "stepp"),
        ("comm::Gone", "Gone"),
        ("stepp()", "stepp"),
        ("gone_reduce(HostGroup&, type)", "gone_reduce"),
        ("step(Gone::now)", "Gone"),
        ("Result<void> gone()", "gone"),
        ("kGone", "kGone"),
        ("gone_", "gone_"),
        ("all_gone", "all_gone"),
        ("lockstep.Gone", "Gone"),
        ("Rails.ABusy...", "ABusy..."),
    ],
)
def test_a_symbol_that_no_source_has_is_found(tree: Tree, span: str, word: str) -> None:
    assert tree.of_page(f"- With `{span}`.") == [
        f"1: no source has {word} of `{span}`; name what replaced it"
    ]


@pytest.mark.parametrize(
    "span",
    [
        "HostGroup",
        "HostGroup::step()",
        "Result<T>",
        "Result<void> all_reduce(HostGroup&, type)",
        "kSlots",
        "size_",
        "Rails.AFree...",
        "comm_tcp_test",
        "NAME.h",
        "add_NAME(HostGroup)",
        "torch.nn.GoneModule",
        "std::gone()",
        "c10d::Gone",
        "--gone-flag",
        "LOCKSTEP_GONE=1",
        '{"Gone": "Gone::now()"}',
        "./dev gone(1)",
        "rank 3 was killed (by signal 9)",
    ],
)
def test_symbols_of_the_sources_and_what_is_no_symbol_are_accepted(tree: Tree, span: str) -> None:
    assert tree.of_page(f"`{span}`") == []


def test_code_blocks_are_not_read_and_a_span_over_two_lines_is(tree: Tree) -> None:
    assert tree.of_page(
        *("```", "`kGone` [it](gone.md)", "```", "", "    `kGone`", ""),
        *("- An item", "", "  has `step(", "  kGone)`."),
    ) == ["9: no source has kGone of `step( kGone)`; name what replaced it"]


def test_a_decision_may_name_what_is_gone_but_links_to_what_exists(tree: Tree) -> None:
    tree.write("docs/decisions/0001-ring.md", "`kGone` `comm/gone.h`" + 100 * "x", "[it](gone.md)")
    assert tree.findings() == [
        "docs/decisions/0001-ring.md:2: the link gone.md leads to no file; correct or remove it"
    ]


def test_other_pages_and_the_generated_ones_are_not_read(tree: Tree) -> None:
    for page in ("CHANGELOG.md", "docs/api/routes.md", "src/comm/notes.md"):
        tree.write(page, "`kAbsent` [it](gone.md)")
    assert tree.findings() == []


def test_a_line_of_prose_has_at_most_100_columns(tree: Tree) -> None:
    assert tree.of_page(100 * "x", 99 * "x" + " y") == [
        "2: the line has 101 columns; break it at 100"
    ]


@pytest.mark.parametrize("line", ["| {} |", "# {}", "    {}", "https://{}", "- [it](https://{})."])
def test_tables_headings_code_and_links_alone_may_be_longer(tree: Tree, line: str) -> None:
    assert tree.of_page(line.format(100 * "x")) == []


def test_a_page_of_design_has_at_most_150_lines(tree: Tree) -> None:
    tree.write("docs/design/comm.md", *(150 * ["x"]))
    tree.write("docs/guide/long.md", *(151 * ["x"]))
    assert tree.findings() == []
    tree.write("docs/design/comm.md", *(151 * ["x"]))
    assert tree.findings() == [
        "docs/design/comm.md:151: the page has 151 lines; shorten it to 150 or divide it"
    ]


@pytest.mark.parametrize("page", ["docs/guide/page.md", "docs/*"])
def test_the_exceptions_accept_a_name_of_a_page_or_a_whole_page(tree: Tree, page: str) -> None:
    lines = ("`kGone`", "[it](gone.md)")
    tree.write("tools/docs-exceptions.txt", "# why", f"{page}: kGone")
    assert len(tree.of_page(*lines)) == 1
    tree.write("tools/docs-exceptions.txt", f"{page}: kGone", f"{page}: gone.md")
    assert tree.of_page(*lines) == []
    tree.write("tools/docs-exceptions.txt", page)
    assert tree.of_page(*lines) == []
