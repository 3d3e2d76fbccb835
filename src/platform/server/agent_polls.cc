#include "platform/server/agent_polls.h"

namespace lockstep::server {

void AgentPolls::handle_change(const model::RunId& run, std::int64_t version) {
  Basis& known = known_[run];
  if (known.version == version) return;
  known.version = version;
  const model::GangStatus gang = model::gang_status(state_, run);
  const bool changed = gang != known.gang;
  known.gang = gang;
  if (!state_.open.contains(run)) known_.erase(run);
  if (changed) polls_.notify(run);
}

}  // namespace lockstep::server
