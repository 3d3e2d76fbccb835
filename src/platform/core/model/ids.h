// Names of runs, attempts, nodes and ranks: `demo/42`, `demo/42.2`, `demo/42.2/0`. Short enough to
// say, type and paste; ordered, so that plans never depend on hashing.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

struct RunId {
  std::string project;
  std::int64_t number = 0;
  auto operator<=>(const RunId&) const = default;
};

// One try of a run; its epoch counts from 1 and fences what earlier attempts still send.
struct AttemptId {
  RunId run;
  std::int64_t epoch = 0;
  auto operator<=>(const AttemptId&) const = default;
};

// One host's place in an attempt; index counts from 0 and is the ranks' GROUP_RANK.
struct NodeId {
  AttemptId attempt;
  int index = 0;
  auto operator<=>(const NodeId&) const = default;
};

std::string text(const RunId& id);      // demo/42
std::string text(const AttemptId& id);  // demo/42.2
std::string text(const NodeId& id);     // demo/42.2/0

Result<RunId> parse_run_id(std::string_view words);
Result<AttemptId> parse_attempt_id(std::string_view words);
Result<NodeId> parse_node_id(std::string_view words);

// Letters, digits, '-', '_' and '.', at most 64, first a letter or digit: safe in paths, URLs and
// shells.
Result<void> check_name(std::string_view what, std::string_view name);

}  // namespace lockstep
