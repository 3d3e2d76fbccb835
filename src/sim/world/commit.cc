#include "sim/world/commit.h"

#include <algorithm>
#include <functional>
#include <variant>

namespace lockstep::sim {
namespace {

// Adds each row to the map of its kind.
struct Sorter {
  Commit& commit;
  void operator()(const Run& run) const { commit.runs.emplace(run.id, &run); }
  void operator()(const Attempt& attempt) const { commit.attempts.emplace(attempt.id, &attempt); }
  void operator()(const Node& node) const { commit.nodes.emplace(node.id, &node); }
  void operator()(const HostRow& host) const { commit.hosts.emplace(host.id, &host); }
  void operator()(const ClockRow& clock) const { commit.clock = &clock; }
  void operator()(const LimitRow& limit) const { commit.limits.emplace(limit.id, &limit); }
  void operator()(const StoreRow&) const {}
  void operator()(const Orphan& orphan) const { commit.orphans.emplace(orphan.id, &orphan); }
};

const Run* first_predecessor(const CommitView& rows, const Run& run,
                             const std::function<bool(const Run&)>& is_meant) {
  for (const std::string& name : run.spec.after)
    if (const Run* before = rows.find(parse_run_id(name).value()); before && is_meant(*before))
      return before;
  return nullptr;
}

}  // namespace

Commit commit_of(std::span<const Change> changes) {
  Commit commit;
  for (const Change& change : changes) std::visit(Sorter{commit}, change);
  return commit;
}

bool adopts(const State& durable, const Commit& commit, const RunId& run) {
  return std::ranges::any_of(commit.attempts, [&](const auto& entry) {
    const Attempt& attempt = *entry.second;
    return attempt.id.run == run && !durable.attempts.contains(attempt.id) &&
           attempt.generation != durable.store.generation;
  });
}

std::set<RunId> CommitView::open() const {
  std::set<RunId> open = state_.open;
  for (const auto& [id, run] : commit_.runs)
    if (is_final(run->state))
      open.erase(id);
    else
      open.insert(id);
  return open;
}

std::map<std::string, HostState> CommitView::hosts() const {
  std::map<std::string, HostState> states;
  const auto note = [&](const HostRow& host) {
    if (host.state == HostState::open)
      states.erase(host.id);
    else
      states[host.id] = host.state;
  };
  for (const auto& [id, host] : state_.hosts) note(host);
  for (const auto& [id, host] : commit_.hosts) note(*host);
  return states;
}

std::map<LimitId, int> CommitView::limits() const {
  std::map<LimitId, int> limits;
  const auto note = [&](const LimitRow& limit) {
    if (limit.devices)
      limits[limit.id] = *limit.devices;
    else
      limits.erase(limit.id);
  };
  for (const auto& [id, limit] : state_.limits) note(limit);
  for (const auto& [id, limit] : commit_.limits) note(*limit);
  return limits;
}

std::map<NodeName, Orphan> CommitView::orphans() const {
  auto orphans = state_.orphans;
  for (const auto& [name, orphan] : commit_.orphans)
    if (orphan->terminated)
      orphans.erase(name);
    else
      orphans.insert_or_assign(name, *orphan);
  return orphans;
}

const Run* failed_predecessor(const CommitView& rows, const Run& run) {
  return first_predecessor(rows, run, [](const Run& before) {
    return is_final(before.state) && before.state != RunState::succeeded;
  });
}

const Run* unfinished_predecessor(const CommitView& rows, const Run& run) {
  return first_predecessor(rows, run,
                           [](const Run& before) { return before.state != RunState::succeeded; });
}

}  // namespace lockstep::sim
