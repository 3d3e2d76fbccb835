#include "platform/server/janitor/cleanup_candidates.h"

namespace lockstep {

bool attempt_has_ended(const State& state, const NodeId& node) {
  const auto attempt = state.attempts.find(node.attempt);
  return attempt != state.attempts.end() && attempt->second.state == AttemptState::ended;
}

std::vector<NodeId> last_ended_nodes(const State& state, const RunId& run) {
  const auto known = state.runs.find(run);
  if (known == state.runs.end()) return {};
  // At most one attempt is live, and it is the newest.
  AttemptId attempt{run, known->second.epoch};
  if (live_attempt(state, run) != nullptr) --attempt.epoch;
  std::vector<NodeId> found;
  for (const Node* node : nodes_of(state, attempt)) found.push_back(node->id);
  return found;
}

std::optional<NodeId> next_node(const State& state, const std::optional<NodeId>& after) {
  const auto next = after ? state.nodes.upper_bound(*after) : state.nodes.begin();
  return next == state.nodes.end() ? std::nullopt : std::optional(next->first);
}

bool is_old(const Run& run, Time now, Duration keep) {
  return is_final(run.state) && run.ended && now - *run.ended > keep;
}

}  // namespace lockstep
