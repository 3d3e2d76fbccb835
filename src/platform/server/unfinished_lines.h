// UnfinishedLines: incomplete last lines of ranks, as their agents last reported them. They are
// kept in memory only: a complete line is stored, and after a restart of the daemon the agents'
// next calls report them again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "platform/api/messages.h"
#include "platform/core/model/state.h"

namespace lockstep::server {

class UnfinishedLines {
 public:
  // Replaces the lines of the node; true if they differ. Texts are cut to 1,024 bytes.
  bool update(const model::State& state, const model::NodeId& node,
              std::vector<api::UnfinishedLine> lines);
  // The lines of the run's newest attempt, by rank, without nodes that have ended.
  std::vector<api::LogLine> of(const model::State& state, const model::RunId& run,
                               std::optional<int> rank) const;
  // Changes with each change of the run's lines; 0: there are none.
  std::int64_t version(const model::RunId& run) const;

 private:
  struct RunLines {
    std::int64_t version = 0;
    std::map<model::NodeId, std::vector<api::UnfinishedLine>> nodes;
  };

  std::int64_t changes_ = 0;
  std::map<model::RunId, RunLines> runs_;
};

}  // namespace lockstep::server
