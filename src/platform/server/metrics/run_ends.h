// RunEnds: counts the runs that end, by project and state, since the start of the daemon.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "platform/core/model/state.h"

namespace lockstep::server {

class RunEnds {
 public:
  // The state outlives this.
  explicit RunEnds(const model::State& state) : state_(state), open_(state.open) {}

  // A row of the run has changed.
  void handle_change(const model::RunId& run);

  using Counts = std::map<std::pair<std::string, model::RunState>, std::int64_t>;
  const Counts& counts() const { return counts_; }

 private:
  const model::State& state_;
  std::set<model::RunId> open_;
  Counts counts_;
};

}  // namespace lockstep::server
