#include "platform/core/sched/queue/engine_queue.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "platform/core/sched/queue/debug_share.h"
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
    : policy_(policy),
      runs_max_(runs_max),
      table_(map),
      hosts_(table_),
      waiting_(table_, accounts_, policy) {}

void EngineQueue::add_pending(const PendingRun& pending) {
  waiting_.add(pending, accounts_.account_id(pending.run.project, pending.user));
}

void EngineQueue::remove_pending(const model::RunId& run) { waiting_.remove(run); }

void EngineQueue::start(const model::RunId& run, const Started& started) {
  const bool is_new = started_.emplace(run, started).second;
  LS_CHECK(is_new);
  accounts_.add_usage(started.account, started.devices);
  if (started.is_debug) debug_devices_ += started.devices;
}

void EngineQueue::add_allocation(const Allocation& allocation) {
  Started started{.account = accounts_.account_id(allocation.run.project, allocation.user),
                  .expected_end = allocation.expected_end,
                  .is_debug = allocation.run_class == model::RunClass::debug};
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
  if (found->second.is_debug) debug_devices_ -= found->second.devices;
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

// A debug run that starts may leave no room for the next one in the debug share.
template <class Look>
void EngineQueue::visit(const Look& look) const {
  visit_in_queue_order(
      waiting_.entries(),
      [&](const Entry& entry) {
        return debug_share_has_room(policy_, table_, debug_devices_, waiting_.gang(entry).shape);
      },
      look);
}

Plan EngineQueue::schedule(Time now) {
  Plan plan;
  std::vector<std::size_t> started;
  const auto entries = waiting_.entries();
  visit([&](const Entry& entry) {
    if (is_full()) return false;
    if (!may_start(entry)) return true;
    const Shape& shape = waiting_.gang(entry).shape;
    plan.placements.push_back({waiting_.run(entry), devices_without_hosts(shape)});
    start(plan.placements.back().run, {.account = entry.account,
                                       .devices = device_count(shape),
                                       .expected_end = now + entry.time_limit,
                                       .is_debug = entry.tier == WaitingList::kDebugTier});
    started.push_back(static_cast<std::size_t>(&entry - entries.data()));
    return true;
  });
  std::ranges::sort(started);
  waiting_.remove_at(started);
  return plan;
}

std::optional<model::RunId> EngineQueue::head() const {
  std::optional<model::RunId> head;
  visit([&](const Entry& entry) {
    if (may_start(entry)) head = waiting_.run(entry);
    return !head;
  });
  return head;
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
  visit([&](const Entry& entry) {
    all.push_back(explain(entry));
    return true;
  });
  return all;
}

std::vector<std::optional<Time>> EngineQueue::start_estimates() const {
  return std::vector<std::optional<Time>>(waiting_.size());
}

}  // namespace lockstep::sched
