// FlightDesk: what ranks recorded of their collectives, where the daemon does not see their files.
//
// Their agents deliver it with a heartbeat: when somebody asks, and once when all ranks of a node
// have ended, unless the node's own folder has records here. What came is kept in that folder, the
// newest delivery only, and goes with the node's logs. To the daemon it is text that it passes on.
#pragma once

#include <filesystem>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/core/model/state.h"
#include "platform/host/node_files.h"

namespace lockstep {

class FlightDesk {
 public:
  // `state`: the controller's. It and the clock outlive the desk.
  FlightDesk(const State& state, std::filesystem::path home, const Clock& clock)
      : state_(state), home_(std::move(home)), clock_(clock) {}

  // The agents of this attempt are to deliver, if they call within half a minute. When that was
  // asked: now, or by somebody else within the last second.
  Time ask(const AttemptId& attempt);
  // Whether the node's agent, who calls, is to deliver.
  bool wants(const Node& node);
  // What cannot be written is lost, with a warning: its agent is not to try for ever.
  void take(const Node& node, const api::FlightDelivery& delivery);

  bool has_since(const NodeId& node, Time asked) const;
  // The newest delivery; none: a view without records.
  Result<api::FlightView> view(const Node& node, Time asked) const;

 private:
  NodeFiles files_of(const NodeId& node) const;
  bool is_here(const NodeId& node) const;
  void forget_some();

  const State& state_;
  const std::filesystem::path home_;
  const Clock& clock_;
  std::map<AttemptId, Time> asked_;
  std::map<NodeId, Time> delivered_;
  std::set<NodeId> settled_;  // nothing will be wanted by itself: all has come, or is here
};

}  // namespace lockstep
