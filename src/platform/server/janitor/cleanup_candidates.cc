#include "platform/server/janitor/cleanup_candidates.h"

namespace lockstep::server {

bool attempt_has_ended(const model::State& state, const model::NodeId& node) {
  const auto attempt = state.attempts.find(node.attempt);
  return attempt != state.attempts.end() && attempt->second.state == model::AttemptState::ended;
}

std::vector<model::NodeId> last_ended_nodes(const model::State& state, const model::RunId& run) {
  const auto known = state.runs.find(run);
  if (known == state.runs.end()) return {};
  // At most one attempt is live, and it is the newest.
  model::AttemptId attempt{run, known->second.epoch};
  if (model::live_attempt(state, run) != nullptr) --attempt.epoch;
  std::vector<model::NodeId> found;
  for (const model::Node* node : model::nodes_of(state, attempt)) found.push_back(node->id);
  return found;
}

std::optional<model::NodeId> next_node(const model::State& state,
                                       const std::optional<model::NodeId>& after) {
  const auto next = after ? state.nodes.upper_bound(*after) : state.nodes.begin();
  return next == state.nodes.end() ? std::nullopt : std::optional(next->first);
}

}  // namespace lockstep::server
