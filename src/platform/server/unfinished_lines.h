// UnfinishedLines: what ranks have written of lines that have no end yet, as their agents told it
// last. Kept in memory alone: the whole line is stored when it ends, and after a restart of the
// daemon the agents' next calls bring all of it again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "platform/api/messages.h"
#include "platform/core/model/state.h"

namespace lockstep {

class UnfinishedLines {
 public:
  // Replaces what the node had; true if that was something else. Texts are cut to 1,024 bytes.
  bool take(const State& state, const NodeId& node, std::vector<api::UnfinishedLine> lines);
  // Of the run's newest attempt, by rank, without nodes that have left.
  std::vector<api::LogLine> of(const State& state, const RunId& run, std::optional<int> rank) const;
  // Another one after each change of the run's; 0: there are none.
  std::int64_t version(const RunId& run) const;

 private:
  struct OfRun {
    std::int64_t version = 0;
    std::map<NodeId, std::vector<api::UnfinishedLine>> nodes;
  };

  std::int64_t changes_ = 0;
  std::map<RunId, OfRun> runs_;
};

}  // namespace lockstep
