#include "platform/core/sched/queue/engine_queue.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "platform/core/sched/queue/wait_reasons.h"

namespace lockstep::sched {
namespace {

// The devices of each node, without a host.
std::vector<model::HostDevices> devices_without_hosts(const Shape& shape) {
  std::vector<model::HostDevices> nodes;
  const std::size_t count = as_index(shape.nodes) + (shape.remainder > 0 ? 1 : 0);
  for (std::size_t i = 0; i < count; ++i) {
    model::HostDevices& node = nodes.emplace_back();
    node.devices.resize(as_index(resources_on(shape, i).devices));
    std::iota(node.devices.begin(), node.devices.end(), 0);
  }
  return nodes;
}

}  // namespace

EngineQueue::EngineQueue(const map::ClusterMap& map, const SchedulingPolicy& policy, int runs_max)
    : runs_max_(runs_max), table_(map), hosts_(table_), waiting_(table_, accounts_, policy) {}

void EngineQueue::add_pending(const PendingRun& pending) {
  waiting_.add(pending, accounts_.account_id(pending.run.project, pending.user));
}

void EngineQueue::remove_pending(const model::RunId& run) { waiting_.remove(run); }

void EngineQueue::start(const model::RunId& run, const Started& started) {
  const bool is_new = started_.emplace(run, started).second;
  LS_CHECK(is_new);
  accounts_.add_usage(started.account, started.devices);
}

void EngineQueue::add_allocation(const Allocation& allocation) {
  Started started{.account = accounts_.account_id(allocation.run.project, allocation.user),
                  .expected_end = allocation.expected_end};
  for (const model::HostDevices& node : allocation.devices)
    started.devices += std::ssize(node.devices);
  start(allocation.run, started);
}

void EngineQueue::set_expected_end(const model::RunId& run, Time expected_end) {
  started_.at(run).expected_end = expected_end;
}

void EngineQueue::remove_allocation(const model::RunId& run) {
  const auto found = started_.find(run);
  LS_CHECK(found != started_.end());
  accounts_.remove_usage(found->second.account, found->second.devices);
  started_.erase(found);
}

void EngineQueue::set_host(const std::string& host, model::HostState state, std::string why) {
  const auto found = table_.find(host);
  if (!found) return;
  hosts_.set_host_state(*found, state, std::move(why));
  waiting_.set_host_open(*found, hosts_.is_open(*found));
}

bool EngineQueue::may_start(const Entry& entry) const {
  const Gang& gang = waiting_.gang(entry);
  return can_be_placed(gang.scope) && accounts_.allows(entry.account, device_count(gang.shape));
}

Plan EngineQueue::schedule(Time now) {
  Plan plan;
  std::vector<std::size_t> started;
  const auto entries = waiting_.entries();
  for (std::size_t i = 0; i < entries.size() && !is_full(); ++i) {
    if (!may_start(entries[i])) continue;
    const Shape& shape = waiting_.gang(entries[i]).shape;
    plan.placements.push_back({waiting_.run(entries[i]), devices_without_hosts(shape)});
    start(plan.placements.back().run, {.account = entries[i].account,
                                       .devices = device_count(shape),
                                       .expected_end = now + entries[i].time_limit});
    started.push_back(i);
  }
  waiting_.remove_at(started);
  return plan;
}

std::optional<model::RunId> EngineQueue::head() const {
  for (const Entry& entry : waiting_.entries())
    if (may_start(entry)) return waiting_.run(entry);
  return std::nullopt;
}

std::optional<model::RunId> EngineQueue::next_to_end() const {
  const auto next = std::ranges::min_element(
      started_, {}, [](const auto& entry) { return entry.second.expected_end; });
  return next == started_.end() ? std::nullopt : std::optional(next->first);
}

WaitingRun EngineQueue::explain(const Entry& entry) const {
  WaitingRun waiting{.run = waiting_.run(entry), .blocker = {}, .reason = {}};
  const Gang& gang = waiting_.gang(entry);
  const std::int64_t devices = device_count(gang.shape);
  if (gang.scope == PlacementScope::impossible) {
    waiting.reason = WaitingReason(gang_too_large(table_, gang.shape).message);
  } else if (gang.scope == PlacementScope::hosts_closed) {
    waiting.reason = closed_hosts_reason(hosts_, gang);
  } else if (const auto refusal = accounts_.exceeded_limit(entry.account, devices)) {
    waiting.reason = limit_reason(accounts_, *refusal, devices);
    if (devices <= refusal->limit) waiting.blocker = next_to_end();
  } else {
    waiting.blocker = next_to_end();
    waiting.reason = WaitingReason(
        is_full() ? format("{} runs are jobs of the engine, the most that slurm_jobs_max allows",
                           started_.size())
                  : "waits for the next pass over the queue");
  }
  return waiting;
}

std::vector<WaitingRun> EngineQueue::waiting() const {
  std::vector<WaitingRun> all;
  for (const Entry& entry : waiting_.entries()) all.push_back(explain(entry));
  return all;
}

std::vector<std::optional<Time>> EngineQueue::start_estimates() const {
  return std::vector<std::optional<Time>>(waiting_.size());
}

}  // namespace lockstep::sched
