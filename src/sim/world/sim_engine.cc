#include "sim/world/sim_engine.h"

#include <algorithm>
#include <utility>

#include "map/query.h"

namespace lockstep::sim {
namespace {

const Error kDaemonDead{Code::unavailable, "the daemon is dead"};
constexpr Duration kListAgeMax = std::chrono::seconds(10);

}  // namespace

void SimEngine::leave_out(const map::ClusterMap& hosts) {
  for (const map::Host* host : map::hosts(hosts)) left_out_.insert(host->id);
}

bool SimEngine::is_of_another_engine(const model::NodeName& node) const {
  const host::LaunchSpec* launch = components_.hosts.launch_of(node);
  return launch && left_out_.contains(launch->host);
}

// Another daemon has another engine object: it knows nothing of the one before.
void SimEngine::begin_life() {
  if (life_ == components_.crash_points.crashes()) return;
  life_ = components_.crash_points.crashes();
  is_looking_ = false;
  seen_.reset();
  submissions_.clear();
}

// Not if the daemon dies meanwhile.
void SimEngine::after_delay(std::function<void()> act) {
  const Duration delay =
      faults_.slow > Duration(0) ? random_.from_to(Duration(0), faults_.slow) : Duration(0);
  components_.context.timeline.after(delay, [this, life = life_, act = std::move(act)] {
    if (components_.crash_points.alive() && life == components_.crash_points.crashes()) act();
  });
}

void SimEngine::submit(engine::Gang gang) {
  if (!components_.crash_points.alive()) return;
  begin_life();
  for (const engine::NodePlacement& placement : gang.nodes) {
    const host::LaunchSpec launch = engine::launch_spec(gang, placement, "/home/daemon");
    if (!submissions_.emplace(engine::node_name(gang, placement), Submission{}).second) continue;
    after_delay([this, launch] { start(launch); });
  }
}

void SimEngine::start(const host::LaunchSpec& launch) {
  const model::NodeName node{launch.generation, model::parse_node_id(launch.node).value()};
  const auto found = submissions_.find(node);
  if (found == submissions_.end() || !found->second.is_queued) return;  // killed meanwhile
  found->second.is_queued = false;
  if (components_.hosts.launch_of(node)) return;  // by an earlier daemon
  if (!components_.crash_points.pass("before a launch")) return;
  components_.truth.check_submission(launch);
  components_.truth.check_launch(launch);
  const auto started = start_agent(launch);
  components_.context.trace("engine", "launches {} on {}{}{}", launch.node, launch.host,
                            started ? "" : ": ", started ? "" : started.error().message);
  if (!started) record_failure(node, started.error().message);
  components_.crash_points.pass("after a launch");
}

Result<void> SimEngine::start_agent(const host::LaunchSpec& launch) {
  if (faults_.starts_fail) return Error{Code::unavailable, "no more processes"};
  if (!components_.network.can_reach(launch.host))
    return Error{Code::unavailable, "host " + launch.host + " cannot be reached"};
  return components_.hosts.start(launch);
}

// The rest of the gang is not started.
void SimEngine::record_failure(const model::NodeName& node, const std::string& reason) {
  components_.truth.mark_disturbed(node.attempt());
  submissions_[node].failure = reason;
  std::erase_if(submissions_, [&](const auto& entry) {
    return entry.second.is_queued && entry.first.attempt() == node.attempt();
  });
}

void SimEngine::kill(const model::NodeName& node) {
  if (!components_.crash_points.pass("before a kill")) return;
  begin_life();
  components_.truth.check_kill(node);
  const auto found = submissions_.find(node);
  if (found != submissions_.end() && found->second.is_queued) {
    components_.context.trace("engine", "does not start {}", text(node));
    submissions_.erase(found);
  } else {
    after_delay([this, node] { kill_processes(node); });
  }
  components_.crash_points.pass("after a kill");
}

void SimEngine::kill_processes(const model::NodeName& node) {
  if (is_of_another_engine(node)) return;
  for (const auto& [id, agent] : components_.hosts.agents())
    if (agent->name() == node && !components_.network.can_reach(agent->host()))
      return components_.context.trace("engine", "cannot reach host {} to kill {}", agent->host(),
                                       text(node));
  components_.context.trace("engine", "kills {}", text(node));
  components_.hosts.kill(node);
}

// Submissions that have been started are in the list from now on.
void SimEngine::look() {
  is_looking_ = false;
  looked_at_ = components_.context.timeline.now();
  seen_.emplace();
  for (const model::NodeName& node : components_.hosts.nodes()) {
    if (is_of_another_engine(node)) continue;
    const host::LaunchSpec* launch = components_.hosts.launch_of(node);
    seen_->push_back({.node = node,
                      .seen = {.has_agent = components_.hosts.has_agent(node)},
                      .record = std::make_shared<const engine::LaunchRecord>(
                          launch ? engine::launch_record(*launch)
                                 : engine::LaunchRecord{.error = "there is no launch file"})});
  }
  std::erase_if(submissions_,
                [](const auto& entry) { return !entry.second.is_queued && !entry.second.failure; });
}

std::map<std::string, std::string> SimEngine::unreachable_hosts() const {
  std::map<std::string, std::string> found;
  if (!tells_unreachable_hosts_) return found;
  for (const std::string& host : components_.hosts.names())
    if (!left_out_.contains(host) &&
        (!components_.network.can_reach(host) || !components_.hosts.is_up(host))) {
      components_.truth.host_unavailable(host);
      found.emplace(host, "it does not answer");
    }
  return found;
}

Result<engine::EngineList> SimEngine::list() {
  if (!components_.crash_points.pass("before a look")) return kDaemonDead;
  begin_life();
  if (faults_.slow == Duration(0)) {
    look();
  } else if (!std::exchange(is_looking_, true)) {
    after_delay([this] { look(); });
  }
  if (!components_.crash_points.pass("after a look")) return kDaemonDead;
  if (faults_.list_fails || !seen_ ||
      components_.context.timeline.now() - looked_at_ >= kListAgeMax)
    return Error{Code::unavailable, "the engine does not answer"};
  std::vector<engine::ListedNode> all = *seen_;
  for (const auto& [node, submission] : submissions_) {
    if (std::ranges::find(*seen_, node, &engine::ListedNode::node) != seen_->end()) continue;
    const bool failed = submission.failure.has_value();
    all.push_back({.node = node,
                   .seen = {.phase = failed ? model::NodePhase::gone : model::NodePhase::starting,
                            .reason = submission.failure.value_or(""),
                            .blame = failed ? model::EndBlame::host : model::EndBlame::unknown}});
  }
  std::ranges::sort(all, {}, &engine::ListedNode::node);
  return engine::EngineList{.nodes = std::move(all), .unavailable = unreachable_hosts()};
}

}  // namespace lockstep::sim
