// AgentPolls: agents' calls whose answer waits for another command. They are tried again when the
// commands of their attempt may have changed: not at each report of a node, because with n nodes
// that would be n tries for each of n reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "net/loop.h"
#include "platform/core/model/command.h"
#include "platform/core/model/state.h"
#include "platform/server/long_polls.h"

namespace lockstep::server {

class AgentPolls {
 public:
  // The state outlives this.
  AgentPolls(net::Loop& loop, const model::State& state) : polls_(loop), state_(state) {}

  void wait(const model::RunId& run, Duration patience, LongPolls::TryAnswer attempt) {
    polls_.wait(run, patience, std::move(attempt));
  }
  // A row of the run has changed. Its version tells whether more than heartbeats did.
  void handle_change(const model::RunId& run, std::int64_t version);
  // There is an order for agents of the run that is no command.
  void notify(const model::RunId& run) { polls_.notify(run); }
  void finish() { polls_.finish(); }

 private:
  // Commands of an attempt's agents are the same while this is.
  struct Basis {
    std::int64_t version = -1;
    model::GangStatus gang{};
  };

  LongPolls polls_;
  const model::State& state_;
  std::map<model::RunId, Basis> known_;  // of runs that have not ended
};

}  // namespace lockstep::server
