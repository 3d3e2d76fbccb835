#include "platform/engine/hosts/hosts_engine.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

// The service lists its nodes at least every 10 s.
constexpr Duration kHostListAgeMax = std::chrono::seconds(30);
constexpr Duration kClockAheadMax = std::chrono::seconds(2);
constexpr Duration kClockBehindMax = std::chrono::seconds(10);

constexpr std::string_view kNoFacts = "its host service has not reported its devices yet";

std::shared_ptr<const LaunchRecord> record_of(const std::optional<api::ReportedLaunch>& launch) {
  if (!launch) return nullptr;
  return std::make_shared<const LaunchRecord>(
      LaunchRecord{.attempt = launch->attempt,
                   .host = launch->host,
                   .devices = launch->devices.value_or(std::vector<int>()),
                   .time_left = launch->time_left,
                   .error = launch->error});
}

// A node that the host does not list yet, or not any more.
ListedNode unlisted(const model::NodeName& node) {
  return {.node = node, .seen = {.phase = model::NodePhase::starting}};
}

}  // namespace

void HostsEngine::submit(Gang gang) {
  std::set<std::string> touched;
  for (const NodePlacement& placement : gang.nodes) {
    const model::NodeName node = node_name(gang, placement);
    Host& host = hosts_[placement.host];
    if (host.nodes.contains(node) || host.starts.contains(node) || host.kills.contains(node))
      continue;
    host.starts[node].order = {.launch = launch_spec(gang, placement, ""),
                               .make_checkpoint_folder = gang.make_checkpoint_folder};
    touched.insert(placement.host);
  }
  for (const std::string& host : touched) announce(host);
}

void HostsEngine::kill(const model::NodeName& node) {
  for (auto& [name, host] : hosts_) {
    const auto start = host.starts.find(node);
    const bool is_unsent = start != host.starts.end() && start->second.sent_in == 0;
    const bool may_exist = host.nodes.contains(node) || host.kills.contains(node) ||
                           (start != host.starts.end() && !is_unsent);
    if (start != host.starts.end()) host.starts.erase(start);
    if (!may_exist) continue;
    host.kills[node] = 0;  // again in the next answer
    announce(name);
  }
}

Result<EngineList> HostsEngine::list() {
  EngineList listed;
  listed.answered.emplace();
  for (const auto& [name, host] : hosts_) {
    if (!host.service.empty()) listed.answered->insert(name);
    if (is_silent(host)) listed.silent.insert(name);
    if (auto reason = why_unavailable(host); !reason.empty())
      listed.unavailable.emplace(name, std::move(reason));
    else if (auto problem = why_unfit(host); !problem.empty())
      listed.unfit.emplace(name, std::move(problem));
    for (const auto& [node, seen] : host.nodes) listed.nodes.push_back(seen);
    for (const auto& [node, start] : host.starts)
      if (!host.nodes.contains(node)) listed.nodes.push_back(unlisted(node));
    for (const auto& [node, sent_in] : host.kills)
      if (!host.nodes.contains(node)) listed.nodes.push_back(unlisted(node));
  }
  std::ranges::sort(listed.nodes, {}, &ListedNode::node);
  return listed;
}

// A new start of the service does not count before it has an answer, which has a higher number than
// those to the start before. So a late report of that one has a lower number.
bool HostsEngine::take(const std::string& name, const api::ServiceReport& report) {
  Host& host = hosts_[name];
  // It may have been on its way since before the daemon's start.
  host.is_new = host.is_new || report.session != setup_.session;
  if (report.session != setup_.session || report.answered < host.answered) return false;
  if (report.service == host.service && report.number <= host.number) return false;
  host.answered = report.answered;
  if (report.service != host.service) {
    host.facts_problem = kNoFacts;
    // It knows no order of an answer to the one before.
    for (auto& [node, start] : host.starts) start.sent_in = 0;
    for (auto& [node, sent_in] : host.kills) sent_in = 0;
  }
  host.service = report.service;
  host.number = report.number;
  host.heard = setup_.steady.since_boot();
  host.heard_at = setup_.clock.now();
  host.presumed_dead = false;
  host.problem = problem_of(report);
  if (report.inventory) host.inventory = report.inventory;
  host.nodes_error = report.nodes_error.value_or("");
  if (!report.nodes_error && take_nodes(host, report)) confirm(host, report.answered);
  return true;
}

void HostsEngine::record_facts(const std::string& host, const Result<void>& stored) {
  hosts_[host].facts_problem =
      stored ? "" : format("its devices are not on the map: {}", stored.error().message);
}

// False: an entry is damaged, and nothing of it is taken.
bool HostsEngine::take_nodes(Host& host, const api::ServiceReport& report) {
  std::map<model::NodeName, ListedNode> nodes;
  for (const api::ReportedNode& one : report.nodes) {
    const auto node = model::parse_node_name(one.node);
    if (!node) {
      host.nodes_error = format("it reports a node '{}', which is no name of one", one.node);
      return false;
    }
    nodes[*node] = {.node = *node, .seen = one.seen, .record = record_of(one.launch)};
  }
  host.nodes = std::move(nodes);
  host.listed = host.heard;
  return true;
}

// `answered`: the orders of answers up to this one were carried out before the nodes were listed.
void HostsEngine::confirm(Host& host, std::int64_t answered) {
  const auto was_carried_out = [&](std::int64_t sent_in) {
    return sent_in != 0 && sent_in <= answered;
  };
  std::erase_if(host.starts, [&](const auto& entry) {
    const auto seen = host.nodes.find(entry.first);
    if (seen == host.nodes.end()) return was_carried_out(entry.second.sent_in);
    return seen->second.seen.phase != model::NodePhase::starting;
  });
  std::erase_if(host.kills, [&](const auto& entry) {
    const auto seen = host.nodes.find(entry.first);
    if (seen == host.nodes.end()) return was_carried_out(entry.second);
    return seen->second.seen.phase == model::NodePhase::gone;
  });
}

bool HostsEngine::is_silent(const Host& host) const {
  return !host.service.empty() && setup_.steady.since_boot() - host.heard >= setup_.silent_after;
}

std::string HostsEngine::why_unavailable(const Host& host) const {
  if (host.service.empty()) return std::string(kNotCalled);
  if (host.presumed_dead)
    return "it was declared dead; it takes runs again once its host service calls";
  const Duration now = setup_.steady.since_boot();
  if (is_silent(host))
    return format("its host service has not called since {}", text(host.heard_at));
  if (!host.listed || now - *host.listed >= kHostListAgeMax)
    return format("its host service cannot tell which nodes run: {}",
                  host.nodes_error.empty() ? "no reason is known" : host.nodes_error);
  return "";
}

std::string HostsEngine::why_unfit(const Host& host) {
  std::vector<std::string> problems;
  for (const std::string& problem : {host.facts_problem, host.problem})
    if (!problem.empty()) problems.push_back(problem);
  return joined(problems, "; ");
}

std::string HostsEngine::why_not_shared(const std::optional<api::SharedFolder>& seen) const {
  const std::string& path = setup_.shared->path;
  if (!seen) return format("it has not yet checked that it sees the shared folder {}", path);
  if (seen->marker.empty())
    return format("it does not see the shared folder {} (no file .lockstep in it): mount it there",
                  path);
  return format(
      "{} on it is another folder than on the daemon's machine (another file .lockstep): "
      "mount the same one",
      path);
}

// Ahead by two seconds at the most; a report may have been on its way for some.
std::string HostsEngine::problem_of(const api::ServiceReport& report) const {
  std::vector<std::string> problems;
  for (const api::HostProblem& problem : report.problems) problems.push_back(problem.detail);
  if (setup_.shared && report.shared != setup_.shared)
    problems.push_back(why_not_shared(report.shared));
  const Duration offset = report.clock - setup_.clock.now();
  if (offset > kClockAheadMax || -offset > kClockBehindMax)
    problems.push_back(format("its clock is {} the daemon's by more than {}: set it by NTP",
                              offset > Duration(0) ? "ahead of" : "behind",
                              text(offset > Duration(0) ? kClockAheadMax : kClockBehindMax)));
  return joined(problems, "; ");
}

api::ServiceOrders HostsEngine::orders(const std::string& name) {
  Host& host = hosts_[name];
  host.is_new = false;
  api::ServiceOrders orders{.session = setup_.session, .number = ++host.answers};
  orders.shared = setup_.shared;
  orders.wait_seconds = in_seconds(setup_.silent_after / 3);
  for (auto& [node, start] : host.starts) {
    if (start.sent_in == 0) start.sent_in = orders.number;
    orders.start.push_back(start.order);
  }
  for (auto& [node, sent_in] : host.kills) {
    if (sent_in == 0) sent_in = orders.number;
    orders.kill.push_back(text(node));
  }
  return orders;
}

bool HostsEngine::has_new_orders(const std::string& name) const {
  const auto host = hosts_.find(name);
  if (host == hosts_.end()) return false;
  if (host->second.is_new) return true;
  return std::ranges::any_of(host->second.starts,
                             [](const auto& entry) { return entry.second.sent_in == 0; }) ||
         std::ranges::any_of(host->second.kills,
                             [](const auto& entry) { return entry.second == 0; });
}

// If it joins again, its service may still know this session, and the numbers of its answers.
void HostsEngine::forget(const std::string& name) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  Host fresh;
  fresh.answers = found->second.answers;
  found->second = std::move(fresh);
}

// Its answers keep their numbers, because its service may live and ignore lower ones.
void HostsEngine::presume_dead(const std::string& name) {
  const auto host = hosts_.find(name);
  if (host == hosts_.end()) return;
  host->second.presumed_dead = true;
  host->second.nodes.clear();
  host->second.starts.clear();
  host->second.kills.clear();
}

const api::HostInventory* HostsEngine::inventory(const std::string& name) const {
  const auto host = hosts_.find(name);
  return host == hosts_.end() || !host->second.inventory ? nullptr : &*host->second.inventory;
}

void HostsEngine::announce(const std::string& host) const {
  if (on_new_orders_) on_new_orders_(host);
}

}  // namespace lockstep::engine
