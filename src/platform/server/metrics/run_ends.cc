#include "platform/server/metrics/run_ends.h"

namespace lockstep::server {

void RunEnds::handle_change(const model::RunId& run) {
  if (state_.open.contains(run)) {
    open_.insert(run);
    return;
  }
  const auto row = state_.runs.find(run);
  if (open_.erase(run) == 0 || row == state_.runs.end()) return;
  ++counts_[{run.project, row->second.state}];
}

}  // namespace lockstep::server
