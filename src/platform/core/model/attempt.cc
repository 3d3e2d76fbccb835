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

bool all_ranks_ended(const Node& node) {
  return node.ranks.size() == node.devices.size() &&
         std::ranges::none_of(node.ranks,
                              [](const Rank& r) { return r.state == RankState::running; });
}

}  // namespace lockstep
