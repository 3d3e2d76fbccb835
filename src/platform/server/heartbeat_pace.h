// HeartbeatPace: how soon an agent is to call again. The more agents call, the longer the interval,
// so that their calls together stay below a rate that one thread serves easily. Agents with many
// items, as after an outage, share a rate of bytes.
//
// Times are arguments, on a clock that does not jump.
#pragma once

#include <cstddef>
#include <set>

#include "base/units.h"
#include "platform/core/model/ids.h"

namespace lockstep::server {

class HeartbeatPace {
 public:
  // An agent has called and brought items of this size.
  void record_call(const model::NodeName& node, std::size_t item_bytes, Duration now);

  // Between two calls of an agent. One that brought no news may wait longer.
  Duration interval(bool has_news) const;
  // Until the next call of an agent that has more items: the other agents' items come first.
  Duration batch_pause(Duration now) const;

 private:
  std::set<model::NodeName> callers_;   // in the present period
  std::set<model::NodeName> previous_;  // in the one before
  Duration period_begin_{};
  Duration items_end_{};  // when the items so far would have come at the rate
};

}  // namespace lockstep::server
