#include "sim/checks/widespread_silence.h"

#include <set>
#include <string>

#include "platform/core/model/command.h"

namespace lockstep::sim {

bool is_silence_widespread(const model::State& rows) {
  int all = 0, silent = 0;
  std::set<std::string> hosts;
  for (const auto& [id, node] : rows.nodes) {
    if (node.state < model::NodeState::ready || model::ranks_are_final(node)) continue;
    ++all;
    if (!node.unreachable_since) continue;
    ++silent;
    hosts.insert(node.host);
  }
  return hosts.size() >= 2 && silent * 5 > all;
}

}  // namespace lockstep::sim
