#include "platform/core/model/state.h"

namespace lockstep {
namespace {

void put(State& state, const Run& run) {
  Usage& usage = state.usage[run.id.project];
  if (const auto before = state.runs.find(run.id); before != state.runs.end())
    count_in(usage, before->second, -1);
  count_in(usage, run);
  state.runs.insert_or_assign(run.id, run);
  if (!run.request_id.empty()) state.requests.insert_or_assign(run.request_id, run.id);
  if (is_final(run.state))
    state.open.erase(run.id);
  else
    state.open.insert(run.id);
}
void put(State& state, const Attempt& attempt) {
  state.attempts.insert_or_assign(attempt.id, attempt);
}
void put(State& state, const Node& node) { state.nodes.insert_or_assign(node.id, node); }
void put(State& state, const HostRow& host) { state.hosts.insert_or_assign(host.id, host); }
void put(State& state, const LimitRow& limit) { state.limits.insert_or_assign(limit.id, limit); }
void put(State& state, const StoreRow& store) { state.store = store; }
void put(State& state, const Orphan& orphan) {
  if (orphan.gone)
    state.orphans.erase(orphan.id);
  else
    state.orphans.insert_or_assign(orphan.id, orphan);
}
void put(State& state, const ClockRow& clock) { state.clock = clock; }

std::int64_t device_seconds(const Run& run, Duration time) {
  return rank_count(run.spec) * std::chrono::floor<std::chrono::seconds>(time).count();
}

}  // namespace

std::optional<Duration> set_by(const std::optional<ClockRow>& before, const ClockRow& now) {
  constexpr Duration kLeast = std::chrono::seconds(1);
  if (!before || before->boot.empty() || before->boot != now.boot) return std::nullopt;
  const Duration by = now.zero - before->zero;
  return by < kLeast && by > -kLeast ? Duration(0) : by;
}

std::int64_t day_of(Time time) {
  return std::chrono::floor<std::chrono::days>(time).time_since_epoch().count();
}

void count_in(Usage& usage, const Run& run, int sign) {
  if (run.ended)
    usage.had[day_of(*run.ended)] += sign * device_seconds(run, run.charged);
  else
    usage.asked += sign * device_seconds(run, run.spec.timeout);
}

void apply(State& state, const Change& change) {
  std::visit([&](const auto& row) { put(state, row); }, change);
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

bool knows(const State& state, const NodeName& node) {
  return state.nodes.contains(node.id) && name_of(state, node.id) == node;
}

AttemptRecord record_of(const State& state, const AttemptId& id) {
  const Run& run = state.runs.at(id.run);
  AttemptRecord made{.spec = run.spec,
                     .origin = run.origin,
                     .run_generation = run.generation,
                     .submitted = run.submitted,
                     .queued = run.queued,
                     .created = state.attempts.at(id).created,
                     .charged = run.charged,
                     .slices = {},
                     .user_exits = run.user_exits,
                     .losses = run.losses,
                     .moves = run.moves,
                     .share = run.share,
                     .priority = run.priority};
  for (const Node* node : nodes_of(state, id)) made.slices.push_back({node->host, node->devices});
  return made;
}

void forget_sightings(State& state) {
  std::erase_if(state.orphans, [](const auto& entry) { return !entry.second.stopping; });
  for (auto& [name, orphan] : state.orphans) orphan = {.id = name, .stopping = orphan.stopping};
}

std::vector<const Orphan*> orphans_of(const State& state, const RunId& run) {
  std::vector<const Orphan*> found;
  for (const auto& [name, orphan] : state.orphans)
    if (name.id.attempt.run == run) found.push_back(&orphan);
  return found;
}

RunId holder_of_orphan(const RunId& run) { return {"orphan " + run.project, run.number}; }

std::vector<const Node*> nodes_of(const State& state, const AttemptId& attempt) {
  std::vector<const Node*> nodes;
  for (auto it = state.nodes.lower_bound(NodeId{attempt, 0});
       it != state.nodes.end() && it->first.attempt == attempt; ++it)
    nodes.push_back(&it->second);
  return nodes;
}

}  // namespace lockstep
