// HostChecker checks what the rows say of hosts that join (docs/design/hosts.md): runs are placed
// on hosts that are on the map and can take them, and no node counts as gone while its host cannot
// be asked. Without such hosts it checks nothing.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "platform/core/model/state.h"
#include "platform/engine/engine.h"
#include "sim/sim_context.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

// The hosts that an operator removes as lost in this commit.
std::set<std::string> hosts_removed_as_lost(const model::State& durable, const Commit& commit);

class HostChecker {
 public:
  HostChecker(SimContext& context, const model::State& durable)
      : context_(context), durable_(durable) {}

  // The list of the present daemon's engine.
  using List = std::function<engine::EngineList()>;
  void set_engine(List list) { list_ = std::move(list); }

  // The host is not on the map or cannot be asked, so its nodes are not known.
  bool is_unknown(const std::string& host) const;

  // The rows are about to become durable.
  void check(const Commit& commit) const;

 private:
  void check_placement(const Commit& commit, const map::ClusterMap& map,
                       const model::Node& node) const;
  void check_release(const Commit& commit, const model::Node& node) const;

  SimContext& context_;
  const model::State& durable_;
  List list_;
};

}  // namespace lockstep::sim
