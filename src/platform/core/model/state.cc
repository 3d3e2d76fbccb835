#include "platform/core/model/state.h"

#include <algorithm>

#include "map/query.h"
#include "platform/core/model/map_of_hosts.h"

namespace lockstep::model {
namespace {

void put_row(State& state, const Run& run) {
  Usage& usage = state.usage[run.id.project];
  if (const auto before = state.runs.find(run.id); before != state.runs.end())
    add_usage(usage, before->second, -1);
  add_usage(usage, run);
  state.runs.insert_or_assign(run.id, run);
  if (!run.request_id.empty()) state.requests.insert_or_assign(run.request_id, run.id);
  if (is_final(run.state))
    state.open.erase(run.id);
  else
    state.open.insert(run.id);
  if (has_condition(run))
    state.conditional.insert(run.id);
  else
    state.conditional.erase(run.id);
}
void put_row(State& state, const Attempt& attempt) {
  state.attempts.insert_or_assign(attempt.id, attempt);
  if (attempt.state == AttemptState::ended)
    state.live.erase(attempt.id);
  else
    state.live.insert(attempt.id);
}
void put_row(State& state, const Node& node) { state.nodes.insert_or_assign(node.id, node); }
void put_row(State& state, const HostRow& host) {
  const auto found = state.hosts.find(host.id);
  const bool moves = changes_map(found == state.hosts.end() ? nullptr : &found->second, host);
  state.hosts.insert_or_assign(host.id, host);
  if (moves && state.hosts_make_map) state.map = map_of_hosts(state.hosts, state.map);
}
void put_row(State& state, const LimitRow& limit) {
  state.limits.insert_or_assign(limit.id, limit);
}
std::optional<std::pair<Time, std::string>> grant_end_of(const budget::Budget& budget) {
  if (budget.grants.empty()) return std::nullopt;
  return std::pair(budget.grants.front().ends, budget.id);
}
void put_row(State& state, const budget::Budget& budget) {
  if (const auto before = state.budgets.find(budget.id); before != state.budgets.end())
    if (const auto end = grant_end_of(before->second)) state.grant_ends.erase(*end);
  if (const auto end = grant_end_of(budget)) state.grant_ends.insert(*end);
  state.budgets.insert_or_assign(budget.id, budget);
}
void put_row(State& state, const budget::Rate& rate) {
  state.rates.insert_or_assign(rate.id, rate);
}
void put_row(State&, const budget::Posting&) {}
void put_row(State&, const budget::UsagePart&) {}
void put_row(State& state, const StoreRow& store) { state.store = store; }
void put_row(State& state, const Orphan& orphan) {
  if (orphan.terminated)
    state.orphans.erase(orphan.id);
  else
    state.orphans.insert_or_assign(orphan.id, orphan);
}
void put_row(State& state, const GivenUpNode& node) {
  if (node.gone)
    state.given_up.erase(node.id);
  else
    state.given_up.insert_or_assign(node.id, node);
}
void put_row(State& state, const ClockRow& clock) { state.clock = clock; }
void put_row(State& state, const MeasuredRow& row) {
  state.measured = row;
  if (state.hosts_make_map) state.map.measured = row.measured;
}
void put_row(State&, const AuditRecord&) {}
void put_row(State&, const Notice&) {}
void put_row(State& state, const budget::Bucket& bucket) {
  state.buckets.insert_or_assign(bucket.id, bucket);
}

std::int64_t device_seconds(const Run& run, Duration time) {
  return rank_count(run.spec) * std::chrono::floor<std::chrono::seconds>(time).count();
}

}  // namespace

std::optional<Duration> clock_shift(const std::optional<ClockRow>& before, const ClockRow& now) {
  constexpr Duration kLeast = std::chrono::seconds(1);
  if (!before || before->boot.empty() || before->boot != now.boot) return std::nullopt;
  const Duration by = now.zero - before->zero;
  return by < kLeast && by > -kLeast ? Duration(0) : by;
}

std::int64_t day_of(Time time) {
  return std::chrono::floor<std::chrono::days>(time).time_since_epoch().count();
}

void add_usage(Usage& usage, const Run& run, int sign) {
  if (is_external(run)) return;
  if (run.ended)
    usage.used_by_day[day_of(*run.ended)] += sign * device_seconds(run, run.time_used);
  else
    usage.outstanding += sign * device_seconds(run, time_limit(run));
}

void apply(State& state, const Change& change) {
  std::visit([&](const auto& row) { put_row(state, row); }, change);
}

const Attempt* live_attempt(const State& state, const RunId& run) {
  const auto found = state.runs.find(run);
  if (found == state.runs.end()) return nullptr;
  const auto attempt = state.attempts.find(AttemptId{run, found->second.epoch});
  if (attempt == state.attempts.end() || attempt->second.state == AttemptState::ended)
    return nullptr;
  return &attempt->second;
}

AttemptName name_of(const Attempt& attempt) { return {attempt.generation, attempt.id}; }

NodeName name_of(const State& state, const NodeId& node) {
  return {state.attempts.at(node.attempt).generation, node};
}

bool has_node(const State& state, const NodeName& node) {
  return state.nodes.contains(node.id) && name_of(state, node.id) == node;
}

std::string engine_of(const State& state, std::string_view host) {
  std::string engine = map::engine_of(state.map, host);
  return engine.empty() ? state.engine : engine;
}

bool has_engine(const State& state, std::string_view engine) {
  return engine.empty() || engine == state.engine ||
         std::ranges::find(state.map.pods, engine, &map::Pod::engine) != state.map.pods.end();
}

AttemptRecord record_of(const State& state, const AttemptId& id) {
  const Run& run = state.runs.at(id.run);
  AttemptRecord record{.spec = run.spec,
                       .origin = run.origin,
                       .run_generation = run.generation,
                       .submitted = run.submitted,
                       .queued = run.queued,
                       .created = state.attempts.at(id).created,
                       .time_used = run.time_used,
                       .devices = {},
                       .user_exits = run.user_exits,
                       .losses = run.losses,
                       .moves = run.moves,
                       .fair_share_used = run.fair_share_used,
                       .priority = run.priority};
  record.spec.timeout = time_limit(run);
  for (const Node* node : nodes_of(state, id))
    record.devices.push_back({node->host, node->devices});
  return record;
}

void drop_unstored_orphans(State& state) {
  std::erase_if(state.orphans, [](const auto& entry) { return !entry.second.stop_requested_at; });
  for (auto& [name, orphan] : state.orphans)
    orphan = {.id = name, .stop_requested_at = orphan.stop_requested_at};
}

std::vector<const Orphan*> orphans_of(const State& state, const RunId& run) {
  std::vector<const Orphan*> found;
  for (const auto& [name, orphan] : state.orphans)
    if (name.id.attempt.run == run) found.push_back(&orphan);
  return found;
}

RunId orphan_allocation_id(const RunId& run) { return {"orphan " + run.project, run.number}; }
RunId given_up_allocation_id(const RunId& run) {
  return {"given-up node of " + run.project, run.number};
}
RunId unplaced_allocation_id(const RunId& run) { return {"hosts of " + run.project, run.number}; }

std::vector<const Node*> nodes_of(const State& state, const AttemptId& attempt) {
  std::vector<const Node*> nodes;
  for (auto it = state.nodes.lower_bound(NodeId{attempt, 0});
       it != state.nodes.end() && it->first.attempt == attempt; ++it)
    nodes.push_back(&it->second);
  return nodes;
}

}  // namespace lockstep::model
