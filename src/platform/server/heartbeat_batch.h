// HeartbeatBatch: the calls of agents that one turn of the loop brings. They are stored together:
// one commit for their reports, then one for their items. Each is answered after both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "platform/api/agent_messages.h"
#include "platform/controller/controller.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/state.h"
#include "platform/insight/insight.h"
#include "platform/server/findings/finding_watch.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

struct HeartbeatCall {
  model::NodeName node;
  api::Heartbeat heartbeat;
  Reply<api::HeartbeatAnswer> reply;
};

// A second agent of the node calls. Its items have the numbers of the first one's, so they are not
// stored; its report has counted them.
bool is_refused(const model::State& state, const HeartbeatCall& call);

// About the size of its items on the wire.
std::size_t item_bytes(const api::Heartbeat& heartbeat);

class HeartbeatBatch {
 public:
  // A call was stored; its node's items are durable up to this sequence.
  using Stored = std::function<void(const HeartbeatCall& call, std::int64_t acknowledged)>;

  // The controller, insight and the findings outlive this.
  HeartbeatBatch(net::Loop& loop, controller::Controller& controller, insight::Insight& insight,
                 FindingWatch& findings, Stored stored)
      : loop_(loop),
        controller_(controller),
        insight_(insight),
        findings_(findings),
        stored_(std::move(stored)) {}

  // Stores it with the others soon, and calls `stored`. A call that cannot be stored gets the error
  // as its answer.
  void add(HeartbeatCall call);
  // Stores all of them now.
  void flush();

 private:
  std::vector<HeartbeatCall> take();
  void store(std::vector<HeartbeatCall> calls);
  void store_items(const std::vector<HeartbeatCall>& calls);
  void run_turn();

  net::Loop& loop_;
  controller::Controller& controller_;
  insight::Insight& insight_;
  FindingWatch& findings_;
  const Stored stored_;
  std::deque<HeartbeatCall> calls_;
  net::Timer turn_;
};

}  // namespace lockstep::server
