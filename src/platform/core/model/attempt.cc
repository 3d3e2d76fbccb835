#include "platform/core/model/attempt.h"

#include <algorithm>

namespace lockstep::model {
namespace {

std::optional<Time> first_bad_end(const std::vector<const Node*>& nodes) {
  std::optional<Time> first;
  for (const Node* node : nodes)
    for (const Rank& rank : node->ranks)
      if (ended_badly(rank) && rank.ended)
        first = std::min(first.value_or(*rank.ended), *rank.ended);
  return first;
}

// A node whose ranks have all ended still sends heartbeats; these do not count as activity.
Time last_activity(const std::vector<const Node*>& nodes) {
  Time last{};
  for (const Node* node : nodes)
    last = std::max(last, last_rank_end(*node).value_or(node->last_heartbeat));
  return last;
}

}  // namespace

std::string_view text(AttemptState state) { return lockstep::name_of(state); }
std::string_view text(Cause cause) { return lockstep::name_of(cause); }
std::string_view text(NodeState state) { return lockstep::name_of(state); }
std::string_view text(StopReason reason) { return lockstep::name_of(reason); }
std::string_view text(RankState state) { return lockstep::name_of(state); }
std::string_view text(Activity activity) { return lockstep::name_of(activity); }

bool ended_badly(const Rank& rank) {
  if (rank.signalled_by_agent) return false;
  return rank.state == RankState::killed || (rank.state == RankState::exited && rank.code != 0);
}

bool is_second_agent(const Node& node, const std::string& incarnation) {
  return !incarnation.empty() && !node.agents.empty() && node.agents.front().id != incarnation;
}

bool has_material_change(const Node& before, const Node& after) {
  if (before.ranks.size() != after.ranks.size()) return true;
  Node same = before;
  same.last_heartbeat = after.last_heartbeat;
  same.last_progress = after.last_progress;
  for (std::size_t i = 0; i < same.ranks.size(); ++i) same.ranks[i].step = after.ranks[i].step;
  return same != after;
}

bool waits_in_engine(const Attempt& attempt, const Node& node) {
  return !node.pending_reason.empty() ||
         (node.state == NodeState::allocated && !attempt.is_placed && node.host.empty());
}

// The node of an external run has no devices: its ranks are those that have reported.
bool all_ranks_started(const Node& node) {
  return node.devices.empty() ? !node.ranks.empty() : node.ranks.size() == node.devices.size();
}

bool all_ranks_succeeded(const std::vector<const Node*>& nodes) {
  return std::ranges::all_of(nodes, [](const Node* node) {
    return all_ranks_started(*node) && std::ranges::all_of(node->ranks, [](const Rank& rank) {
             return rank.state == RankState::exited && rank.code == 0 && !rank.signalled_by_agent;
           });
  });
}

bool all_ranks_ended(const Node& node) {
  return all_ranks_started(node) && std::ranges::none_of(node.ranks, [](const Rank& r) {
           return r.state == RankState::running;
         });
}

std::optional<Time> last_rank_end(const Node& node) {
  if (!all_ranks_ended(node)) return std::nullopt;
  std::optional<Time> last;
  for (const Rank& rank : node.ranks) {
    if (!rank.ended) return std::nullopt;
    last = std::max(last, rank.ended);
  }
  return last;
}

Duration running_time(const Attempt& attempt, const std::vector<const Node*>& nodes, Time now) {
  if (!attempt.started) return Duration(0);
  if (!attempt.draining) return std::max(Duration(0), now - *attempt.started);
  const bool by_a_rank = attempt.cause == Cause::user_exit || attempt.cause == Cause::rank_lost ||
                         attempt.cause == Cause::oom || attempt.cause == Cause::superseded ||
                         attempt.cause == Cause::refused;
  const auto first = by_a_rank ? first_bad_end(nodes) : std::nullopt;
  const Time end = std::min(*attempt.draining, first.value_or(last_activity(nodes)));
  return std::max(Duration(0), end - *attempt.started);
}

}  // namespace lockstep::model
