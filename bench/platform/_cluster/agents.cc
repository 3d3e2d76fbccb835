#include "agents.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "daemon.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::bench {
namespace {

// As the agent's own loop chooses it.
Duration heartbeat_interval(int nodes) {
  constexpr Duration kFastest = std::chrono::milliseconds(200), kSlowest = std::chrono::seconds(2);
  return std::min(kSlowest, kFastest * std::max(1, nodes / 32));
}

api::Heartbeat first_status(const host::LaunchSpec& launch) {
  api::Heartbeat status;
  status.node = launch.node;
  status.address = launch.address;
  status.master_port = status.rendezvous_port = 1;  // its ranks never meet
  status.agent_pid = ::getpid();
  status.boot = MonotonicClock().boot_id();
  status.clock_zero = wall_time_at_boot(SystemClock(), MonotonicClock());
  return status;
}

}  // namespace

SimulatedAgent::SimulatedAgent(const host::LaunchSpec& launch, model::NodeId node)
    : node_(std::move(node)),
      generation_(launch.generation),
      link_(launch.daemon_file, {launch.generation, node_}, launch.token),
      status_(first_status(launch)) {}

Result<std::unique_ptr<SimulatedAgent>> SimulatedAgent::start(const host::LaunchSpec& launch,
                                                              const std::filesystem::path& folder) {
  std::unique_ptr<SimulatedAgent> agent(
      new SimulatedAgent(launch, TRY(model::parse_node_id(launch.node))));
  TRY(make_folders(folder));
  agent->sender_ = TRY(agent::HeartbeatSender::start(
      agent->link_, TRY(spool::Spool::open(folder / "spool", {})), agent->status_,
      {.heartbeat_interval = heartbeat_interval(launch.nodes),
       .refusal_limit = launch.refusal_limit},
      [] { return api::FlightDelivery(); }, agent::ProfileRelay(folder),
      [](const api::HeartbeatAnswer&) { return false; }));
  return agent;
}

void SimulatedAgent::update() {
  const model::CommandKind kind = sender_->orders().command.kind;
  if (kind == model::CommandKind::leave) left_ = true;
  if (kind == model::CommandKind::start && status_.state == model::NodeState::ready) {
    status_.state = model::NodeState::running;
    status_.ranks = {{.rank = node_.index, .local_rank = 0, .pid = ::getpid()}};
    sender_->set_status(status_);
  }
}

void SimulatedAgent::report() {
  if (!runs()) return;
  ++step_;
  const Time now = SystemClock().now();
  std::string line = format("step {}: the loss of node {} was {:.6f}", step_, node_.index,
                            1.0 / static_cast<double>(step_));
  line.resize(100, '.');
  sender_->add({.kind = spool::TelemetryKind::log,
                .rank = node_.index,
                .time = now,
                .text = std::move(line)});
  sender_->set_step(node_.index, step_);
  sender_->add({.kind = spool::TelemetryKind::metrics,
                .rank = node_.index,
                .step = step_,
                .time = now,
                .values = {{"loss", 1.0 / static_cast<double>(step_)}}});
}

Result<SimulatedAgents> SimulatedAgents::open(const std::filesystem::path& folder) {
  return SimulatedAgents(folder / "agents", TRY(open_file(folder / kLaunches, O_RDONLY | O_CREAT)),
                         TRY(open_file(folder / kEnded, O_WRONLY | O_CREAT | O_APPEND)));
}

Result<void> SimulatedAgents::start_launched() {
  char bytes[65536];
  for (ssize_t n = 0; (n = ::read(launches_.get(), bytes, sizeof bytes)) > 0;)
    input_.append(bytes, static_cast<std::size_t>(n));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = input_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const auto launch =
        TRY(from_json<host::LaunchSpec>(TRY(parse_json(input_.substr(begin, end - begin)))));
    agents_.push_back(TRY(SimulatedAgent::start(launch, folder_ / format("{}", agents_.size()))));
  }
  input_.erase(0, begin);
  return {};
}

Result<void> SimulatedAgents::update() {
  TRY(start_launched());
  for (const auto& agent : agents_) {
    if (agent->has_left()) continue;
    agent->update();
    if (agent->has_left()) TRY(write_all(ended_.get(), text(agent->name()) + "\n"));
  }
  return {};
}

void SimulatedAgents::report(int shares) {
  share_ = (share_ + 1) % shares;
  for (std::size_t i = static_cast<std::size_t>(share_); i < agents_.size();
       i += static_cast<std::size_t>(shares))
    agents_[i]->report();
}

int SimulatedAgents::running() const {
  return static_cast<int>(
      std::ranges::count_if(agents_, [](const auto& agent) { return agent->runs(); }));
}

bool SimulatedAgents::all_delivered() const {
  return std::ranges::all_of(agents_, [](const auto& agent) { return agent->all_delivered(); });
}

std::int64_t SimulatedAgents::reports() const {
  std::int64_t sum = 0;
  for (const auto& agent : agents_) sum += agent->reports();
  return sum;
}

}  // namespace lockstep::bench
