// Names of runs, attempts, nodes and ranks: `demo/42`, `demo/42.2`, `demo/42.2/0`. They are short
// enough to type and paste. They are ordered, so that plans never depend on hashing.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::model {

struct RunId {
  std::string project;
  std::int64_t number = 0;
  auto operator<=>(const RunId&) const = default;
};

// One try of a run. Its epoch counts from 1 and fences messages of earlier attempts.
struct AttemptId {
  RunId run;
  std::int64_t epoch = 0;
  auto operator<=>(const AttemptId&) const = default;
};

// One host of an attempt. `index` counts from 0 and is the ranks' GROUP_RANK.
struct NodeId {
  AttemptId attempt;
  int index = 0;
  auto operator<=>(const NodeId&) const = default;
};

// The names of attempts and nodes outside the store: in tokens, process marks and folders.
// `generation` is that of the store in which the attempt was created, so that no other attempt ever
// has the same name. It is empty for attempts created before stores had generations.
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
// 3f9c0a5e7d21b864:demo/42.2, or demo/42.2 without a generation.
std::string text(const AttemptName& name);
std::string text(const NodeName& name);

Result<RunId> parse_run_id(std::string_view input);
Result<AttemptId> parse_attempt_id(std::string_view input);
Result<NodeId> parse_node_id(std::string_view input);
Result<NodeName> parse_node_name(std::string_view input);

// 16 hex digits, or empty.
Result<void> check_generation(std::string_view generation);

// Letters, digits, '-', '_' and '.', at most 64, beginning with a letter or digit: safe in paths,
// URLs and shells.
Result<void> check_name(std::string_view what, std::string_view name);

}  // namespace lockstep::model
