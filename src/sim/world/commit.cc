#include "sim/world/commit.h"

#include <algorithm>
#include <functional>
#include <variant>

#include "platform/core/model/map_of_hosts.h"

namespace lockstep::sim {
namespace {

// Adds each row to the map of its kind.
struct Sorter {
  Commit& commit;
  void operator()(const model::Run& run) const { commit.runs.emplace(run.id, &run); }
  void operator()(const model::Attempt& attempt) const {
    commit.attempts.emplace(attempt.id, &attempt);
  }
  void operator()(const model::Node& node) const { commit.nodes.emplace(node.id, &node); }
  void operator()(const model::HostRow& host) const { commit.hosts.emplace(host.id, &host); }
  void operator()(const model::ClockRow& clock) const { commit.clock = &clock; }
  void operator()(const model::LimitRow& limit) const { commit.limits.emplace(limit.id, &limit); }
  void operator()(const model::StoreRow&) const {}
  void operator()(const model::GivenUpNode& node) const { commit.given_up.emplace(node.id, &node); }
  void operator()(const model::MeasuredRow&) const {}
  void operator()(const model::AuditRecord&) const {}
  void operator()(const model::Notice& notice) const { commit.notices.push_back(&notice); }
  void operator()(const budget::Budget& budget) const {
    commit.budgets.emplace(budget.id, &budget);
  }
  void operator()(const budget::Rate&) const {}
  void operator()(const budget::Posting& posting) const { commit.postings.push_back(&posting); }
  void operator()(const budget::UsagePart&) const {}
  void operator()(const budget::Bucket& bucket) const {
    commit.buckets.emplace(bucket.id, &bucket);
  }
  void operator()(const model::Orphan& orphan) const { commit.orphans.emplace(orphan.id, &orphan); }
};

const model::Run* first_predecessor(const CommitView& rows, const model::Run& run,
                                    const std::function<bool(const model::Run&)>& is_meant) {
  for (const std::string& name : run.spec.after)
    if (const model::Run* before = rows.find(model::parse_run_id(name).value());
        before && is_meant(*before))
      return before;
  return nullptr;
}

}  // namespace

Commit commit_of(std::span<const model::Change> changes) {
  Commit commit;
  for (const model::Change& change : changes) std::visit(Sorter{commit}, change);
  return commit;
}

map::ClusterMap map_after(const model::State& durable, const Commit& commit) {
  if (!durable.hosts_make_map || commit.hosts.empty()) return durable.map;
  auto hosts = durable.hosts;
  for (const auto& [id, host] : commit.hosts) hosts.insert_or_assign(id, *host);
  return model::map_of_hosts(hosts, durable.map);
}

bool adopts(const model::State& durable, const Commit& commit, const model::RunId& run) {
  return std::ranges::any_of(commit.attempts, [&](const auto& entry) {
    const model::Attempt& attempt = *entry.second;
    return attempt.id.run == run && !durable.attempts.contains(attempt.id) &&
           attempt.generation != durable.store.generation;
  });
}

std::set<model::RunId> CommitView::open() const {
  std::set<model::RunId> open = state_.open;
  for (const auto& [id, run] : commit_.runs)
    if (model::is_final(run->state))
      open.erase(id);
    else
      open.insert(id);
  return open;
}

std::map<std::string, model::HostState> CommitView::hosts() const {
  std::map<std::string, model::HostState> states;
  const auto note = [&](const model::HostRow& host) {
    if (const auto placed = model::placement_state(host); placed == model::HostState::open)
      states.erase(host.id);
    else
      states[host.id] = placed;
  };
  for (const auto& [id, host] : state_.hosts) note(host);
  for (const auto& [id, host] : commit_.hosts) note(*host);
  return states;
}

std::map<model::LimitId, int> CommitView::limits() const {
  std::map<model::LimitId, int> limits;
  const auto note = [&](const model::LimitRow& limit) {
    if (limit.devices)
      limits[limit.id] = *limit.devices;
    else
      limits.erase(limit.id);
  };
  for (const auto& [id, limit] : state_.limits) note(limit);
  for (const auto& [id, limit] : commit_.limits) note(*limit);
  return limits;
}

std::map<model::NodeName, model::Orphan> CommitView::orphans() const {
  auto orphans = state_.orphans;
  for (const auto& [name, orphan] : commit_.orphans)
    if (orphan->terminated)
      orphans.erase(name);
    else
      orphans.insert_or_assign(name, *orphan);
  return orphans;
}

std::map<model::NodeId, model::GivenUpNode> CommitView::given_up() const {
  auto nodes = state_.given_up;
  for (const auto& [id, node] : commit_.given_up)
    if (node->gone)
      nodes.erase(id);
    else
      nodes.insert_or_assign(id, *node);
  return nodes;
}

const model::Run* failed_predecessor(const CommitView& rows, const model::Run& run) {
  return first_predecessor(rows, run, [](const model::Run& before) {
    return model::is_final(before.state) && before.state != model::RunState::succeeded;
  });
}

const model::Run* unfinished_predecessor(const CommitView& rows, const model::Run& run) {
  return first_predecessor(rows, run, [](const model::Run& before) {
    return before.state != model::RunState::succeeded;
  });
}

Time last_end_of_predecessors(const CommitView& rows, const model::Run& run) {
  Time last{};
  for (const std::string& name : run.spec.after)
    if (const model::Run* before = rows.find(model::parse_run_id(name).value()))
      last = std::max(last, before->ended.value_or(Time{}));
  return last;
}

}  // namespace lockstep::sim
