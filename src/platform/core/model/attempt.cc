#include "platform/core/model/attempt.h"

#include <algorithm>

namespace lockstep {

std::string_view text(AttemptState state) { return name_of(state); }
std::string_view text(Cause cause) { return name_of(cause); }
std::string_view text(NodeState state) { return name_of(state); }
std::string_view text(RankState state) { return name_of(state); }
std::string_view text(Activity activity) { return name_of(activity); }

bool ended_badly(const Rank& rank) {
  if (rank.signalled_by_us) return false;
  return rank.state == RankState::killed || (rank.state == RankState::exited && rank.code != 0);
}

bool has_news(const Node& before, const Node& after) {
  if (before.ranks.size() != after.ranks.size()) return true;
  Node same = before;
  same.last_heard = after.last_heard;
  for (std::size_t i = 0; i < same.ranks.size(); ++i) same.ranks[i].step = after.ranks[i].step;
  return same != after;
}

bool all_ranks_ended(const Node& node) {
  return node.ranks.size() == node.devices.size() &&
         std::ranges::none_of(node.ranks,
                              [](const Rank& r) { return r.state == RankState::running; });
}

}  // namespace lockstep
