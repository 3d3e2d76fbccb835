"""tools/check_layers on tiny trees: its errors with their lines, and what it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.tools.scripts import findings_of, script

CHECK = script("check_layers")

LAYERS = """\
layer(base                USES fmt)
layer(net                 DEPS base USES boost)
layer(comm                DEPS base net)  # over the network
layer(train               DEPS base comm USES torch)
layer(platform/core/model DEPS base)
layer(platform/agent/core DEPS base)
"""


@dataclass
class Tree:
    root: Path

    def write(self, path: str, *lines: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))

    def findings(self) -> list[str]:
        return findings_of(CHECK, self.root)

    def finding(self) -> str:
        """The only one."""
        found = self.findings()
        assert len(found) == 1, found
        return found[0]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Five layers that keep the rules."""
    made = Tree(tmp_path)
    made.write("src/CMakeLists.txt", LAYERS)
    made.write("src/base/result.h", "#include <string>", "#include <fmt/format.h>")
    made.write("src/base/clock.h", "#include <chrono>")
    made.write("src/net/http.h", '#include "base/result.h"', "#include <boost/asio.hpp>")
    made.write("src/net/http_test.cc", '#include "net/http.h"', "#include <gtest/gtest.h>")
    made.write("src/comm/ring.cc", '#include "comm/detail/wire.h"', '#include "net/http.h"')
    made.write("src/comm/detail/wire.h", '#include "base/result.h"')
    made.write("src/train/unit.cc", "#include <torch/torch.h>", '#include "comm/ring.h"')
    made.write("src/train/unit_test.cc", '#include "base/clock.h"')
    made.write("src/comm/ring.h", "#pragma once")
    made.write("src/platform/core/model/run.h", '#include "base/result.h"')
    made.write("src/platform/agent/core/step.h", '#include "base/result.h"')
    return made


def test_a_tree_that_keeps_the_rules_has_no_finding(tree: Tree) -> None:
    assert tree.findings() == []


def test_a_layer_that_is_not_in_deps_is_refused_where_it_is_included(tree: Tree) -> None:
    tree.write("src/net/tls.cc", "", '#include "comm/ring.h"')
    assert tree.finding().startswith(
        'src/net/tls.cc:2: "comm/ring.h" is of layer comm, which is not'
    )


def test_a_layer_that_only_another_brings_along_must_be_named_too(tree: Tree) -> None:
    tree.write("src/train/mesh.cc", '#include "net/http.h"')
    assert "not in the DEPS of train" in tree.finding()


def test_a_layer_in_deps_of_which_nothing_is_included_is_refused(tree: Tree) -> None:
    tree.write("src/comm/ring.cc", '#include "comm/detail/wire.h"')
    assert tree.finding() == (
        "src/CMakeLists.txt:3: comm names net in DEPS, but includes nothing of it; drop it"
    )


def test_what_only_a_layers_tests_include_is_in_its_deps_too(tree: Tree) -> None:
    tree.write("src/comm/ring.cc", '#include "comm/detail/wire.h"')
    tree.write("src/comm/ring_test.cc", '#include "net/http.h"')
    assert tree.findings() == []


def test_a_library_in_uses_of_which_nothing_is_included_is_refused(tree: Tree) -> None:
    tree.write("src/net/http.h", '#include "base/result.h"')
    assert "net names boost in USES, but includes nothing of it" in tree.finding()


def test_a_library_without_headers_of_its_own_may_be_in_uses(tree: Tree) -> None:
    tree.write("src/CMakeLists.txt", LAYERS.replace("USES fmt", "USES fmt threads"))
    assert tree.findings() == []


def test_a_third_party_header_is_refused_outside_the_layers_that_use_it(tree: Tree) -> None:
    tree.write("src/comm/socket.h", "#include <boost/asio/ip/tcp.hpp>")
    assert "belongs to boost, which comm does not use" in tree.finding()


def test_a_third_party_header_is_refused_with_quotes_too(tree: Tree) -> None:
    tree.write("src/net/text.h", '#include "fmt/format.h"')
    assert "belongs to fmt" in tree.finding()


def test_all_of_torch_in_a_header_is_refused_even_where_torch_is_used(tree: Tree) -> None:
    tree.write("src/train/unit.h", "#include <torch/torch.h>")
    assert "include the narrow header" in tree.finding()


def test_googletest_is_refused_in_the_product(tree: Tree) -> None:
    tree.write("src/net/fake.h", "#include <gmock/gmock.h>")
    assert "the product does not link GoogleTest" in tree.finding()


def test_headers_for_tests_may_use_googletest_but_not_be_used_by_the_product(tree: Tree) -> None:
    tree.write("src/net/detail/peer_for_test.h", "#include <gtest/gtest.h>")
    tree.write("src/net/peer_test.cc", '#include "net/detail/peer_for_test.h"')
    assert tree.findings() == []
    tree.write("src/net/peer.cc", '#include "net/detail/peer_for_test.h"')
    assert "is for tests" in tree.finding()


def test_private_headers_are_refused_to_other_layers_and_to_programs(tree: Tree) -> None:
    tree.write("src/train/peek.cc", '#include "comm/detail/wire.h"')
    tree.write("bench/peek.cc", '#include "comm/detail/wire.h"')
    assert [line.split(":")[0] for line in tree.findings()] == [
        "bench/peek.cc",
        "src/train/peek.cc",
    ]


def test_programs_may_include_every_layer_but_only_their_own_libraries(tree: Tree) -> None:
    tree.write("src/apps/main.cc", "#include <CLI/CLI.hpp>", '#include "train/unit.h"')
    tree.write("src/train/unit.h", "#pragma once")
    assert tree.findings() == []
    tree.write("src/apps/main.cc", "#include <boost/asio.hpp>")
    assert "belongs to boost" in tree.finding()


@pytest.mark.parametrize(
    "line",
    [
        "#include <thread>",
        "#include <fstream>",
        "#include <sys/socket.h>",
        "#include <unordered_map>",
        '#include "base/clock.h"',
        "auto now = std::chrono::steady_clock::now();",
        "double share = 0;",
        "time_t now = time(nullptr);",
    ],
)
def test_the_core_is_refused_what_a_seed_cannot_replay(tree: Tree, line: str) -> None:
    tree.write("src/platform/core/model/state.cc", "", line)
    assert tree.finding().startswith("src/platform/core/model/state.cc:2: ")


def test_the_agents_core_is_pure_too(tree: Tree) -> None:
    tree.write("src/platform/agent/core/step.cc", '#include "base/clock.h"')
    assert "platform/agent/core is pure" in tree.finding()


def test_comments_and_texts_in_the_core_may_speak_of_clocks_and_floats(tree: Tree) -> None:
    tree.write(
        "src/platform/core/model/state.cc",
        "// No double, no steady_clock::now() here.",
        "/* float",
        "   double */",
        'auto text = "a double \\" float";',
        "auto big = 1'000'000; auto quote = 'x';",
    )
    assert tree.findings() == []


def test_the_same_words_outside_the_core_are_fine(tree: Tree) -> None:
    tree.write("src/comm/pace.cc", "#include <thread>", "double seconds = 0;")
    assert tree.findings() == []


def test_a_circle_of_layers_is_named_in_full(tree: Tree) -> None:
    tree.write("src/CMakeLists.txt", LAYERS.replace("layer(base ", "layer(base DEPS comm "))
    tree.write("src/base/meet.h", '#include "comm/ring.h"')
    assert "in a circle: base > comm > base" in tree.finding()


def test_a_layer_without_a_folder_is_refused(tree: Tree) -> None:
    tree.write("src/CMakeLists.txt", LAYERS, "layer(data)")
    assert tree.finding().startswith("src/CMakeLists.txt:8: layer data has no folder")


def test_a_folder_without_a_layer_is_refused(tree: Tree) -> None:
    tree.write("src/data/shard.cc", "")
    assert "src/data is no layer" in tree.finding()


def test_a_folder_below_a_layer_belongs_to_it_unless_it_has_a_line_of_its_own(tree: Tree) -> None:
    tree.write("src/comm/fabric/ring.cc", '#include "net/http.h"', '#include "train/unit.h"')
    tree.write("src/train/unit.h", "")
    assert '"train/unit.h" is of layer train, which is not in the DEPS of comm' in tree.finding()
    tree.write("src/other/ring.cc", "")
    assert any("src/other is no layer" in finding for finding in tree.findings())


@pytest.mark.parametrize("loop", ["for (auto& [name, run] : runs_)", "auto first = runs_.begin()"])
def test_the_core_may_look_up_in_a_hashed_container_but_not_iterate(tree: Tree, loop: str) -> None:
    hashed = "boost::unordered_flat_map<std::string, int> runs_;"
    tree.write("src/platform/core/model/state.h", "", hashed)
    tree.write("src/platform/core/model/state.cc", "", "auto one = runs_.find(name);")
    assert tree.findings() == []
    tree.write("src/platform/core/model/state.cc", "", loop)
    assert "iterates over the hashed runs_" in tree.finding()


def test_unknown_names_in_a_layer_line_are_refused(tree: Tree) -> None:
    tree.write("src/CMakeLists.txt", LAYERS.replace("comm USES torch", "comm nett USES torch zlib"))
    assert [line.split(";")[0] for line in tree.findings()] == [
        "src/CMakeLists.txt:4: train depends on nett, which has no layer line",
        "src/CMakeLists.txt:4: train uses zlib, whose headers are not known",
    ]


def test_a_path_that_does_not_start_at_src_is_refused(tree: Tree) -> None:
    tree.write("src/comm/flat.cc", '#include "ring.h"')
    assert "write the path from src/" in tree.finding()


def test_a_layer_is_in_the_namespace_of_its_name(tree: Tree) -> None:
    tree.write("src/base/result.cc", "namespace lockstep {")
    tree.write("src/comm/links.cc", "namespace lockstep::comm {", "namespace lockstep::comm::x {")
    tree.write("src/platform/core/model/run.cc", "namespace lockstep::model {")
    assert tree.findings() == []
    tree.write("src/comm/links.cc", "namespace lockstep {")
    assert tree.finding() == (
        "src/comm/links.cc:1: comm is in namespace lockstep::comm; write that"
    )


def test_a_layer_adds_nothing_to_the_namespace_of_another(tree: Tree) -> None:
    tree.write("src/comm/links.cc", "namespace lockstep::comm {}", "namespace lockstep::net {")
    assert tree.finding() == (
        "src/comm/links.cc:2: namespace lockstep::net belongs to another layer; move the code there"
    )


def test_a_layer_may_describe_a_type_of_base_where_base_is(tree: Tree) -> None:
    tree.write("src/net/code.h", "namespace lockstep {", "}", "namespace lockstep::net {")
    assert tree.findings() == []
