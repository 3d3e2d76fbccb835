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

// The names under which attempts and nodes are known outside the store: in tokens, marks of
// processes and folders. `generation` is that of the store under which the attempt was made, so
// that no other attempt ever has the same name; empty for those from before stores had one.
struct AttemptName {
  std::string generation;
  AttemptId id;
  auto operator<=>(const AttemptName&) const = default;
};
struct NodeName {
  std::string generation;
  NodeId id;
  AttemptName attempt() const { return {generation, id.attempt}; }
  auto operator<=>(const NodeName&) const = default;
};

std::string text(const RunId& id);      // demo/42
std::string text(const AttemptId& id);  // demo/42.2
std::string text(const NodeId& id);     // demo/42.2/0
// 3f9c0a5e7d21b864:demo/42.2, and demo/42.2 without a generation.
std::string text(const AttemptName& name);
std::string text(const NodeName& name);

Result<RunId> parse_run_id(std::string_view words);
Result<AttemptId> parse_attempt_id(std::string_view words);
Result<NodeId> parse_node_id(std::string_view words);
Result<NodeName> parse_node_name(std::string_view words);

// 16 hex digits; the empty one is fine too.
Result<void> check_generation(std::string_view generation);

// Letters, digits, '-', '_' and '.', at most 64, first a letter or digit: safe in paths, URLs and
// shells.
Result<void> check_name(std::string_view what, std::string_view name);

}  // namespace lockstep
