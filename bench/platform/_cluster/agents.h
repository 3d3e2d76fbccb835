// Many agents in one process: each has the real connection to the daemon (platform/agent/link) and
// the real spool, but no ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/agent/link/heartbeat_sender.h"
#include "platform/agent/link/http_daemon_link.h"
#include "platform/host/launch_spec.h"

namespace lockstep::bench {

class SimulatedAgent {
 public:
  // Its spool is in `folder`.
  static Result<std::unique_ptr<SimulatedAgent>> start(const host::LaunchSpec& launch,
                                                       const std::filesystem::path& folder);

  // Obeys the daemon's last command.
  void update();
  // One line of 100 bytes and one value of a metric; nothing before its rank runs.
  void report();
  bool runs() const { return status_.state == model::NodeState::running; }
  bool has_left() const { return left_; }
  bool all_delivered() const { return sender_->all_delivered(); }
  std::int64_t reports() const { return step_; }
  model::NodeName name() const { return {generation_, node_}; }

 private:
  SimulatedAgent(const host::LaunchSpec& launch, model::NodeId node);

  const model::NodeId node_;
  const std::string generation_;
  agent::HttpDaemonLink link_;
  api::Heartbeat status_;
  std::unique_ptr<agent::HeartbeatSender> sender_;
  std::int64_t step_ = 0;
  bool left_ = false;
};

// The agents that the engine of the other process launches.
class SimulatedAgents {
 public:
  // The daemon's folder.
  static Result<SimulatedAgents> open(const std::filesystem::path& folder);

  // Starts what was launched, and lets all agents obey their commands.
  Result<void> update();
  // A share of the agents report: each of them after `shares` calls.
  void report(int shares);
  int running() const;
  bool all_delivered() const;
  std::int64_t reports() const;

 private:
  SimulatedAgents(std::filesystem::path folder, Fd launches, Fd ended)
      : folder_(std::move(folder)), launches_(std::move(launches)), ended_(std::move(ended)) {}
  Result<void> start_launched();

  std::filesystem::path folder_;
  Fd launches_, ended_;
  std::string input_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  int share_ = 0;
};

}  // namespace lockstep::bench
