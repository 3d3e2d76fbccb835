#include "platform/core/model/ended_runs.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>

#include "base/check.h"

namespace lockstep::model {
namespace {

// The first entry of a map of attempts or nodes at or after the run's first attempt.
AttemptId first_attempt_of(const RunId& run) { return {run, 0}; }

std::set<RunId> awaited_runs(const State& state) {
  std::set<RunId> awaited;
  for (const RunId& id : state.open)
    for (const std::string& name : state.runs.at(id).spec.after)
      awaited.insert(parse_run_id(name).value());  // checked at submission
  return awaited;
}

}  // namespace

RunRows rows_of(const State& state, const RunId& id) {
  RunRows rows{.run = state.runs.at(id)};
  auto attempt = state.attempts.lower_bound(first_attempt_of(id));
  for (; attempt != state.attempts.end() && attempt->first.run == id; ++attempt) {
    rows.attempts.push_back(attempt->second);
    for (const Node* node : nodes_of(state, attempt->first)) rows.nodes.push_back(*node);
  }
  return rows;
}

void add_ended_run(State& state, const RunRows& rows) {
  LS_CHECK(is_final(rows.run.state), "{}", text(rows.run.id));
  if (!state.runs.emplace(rows.run.id, rows.run).second) return;
  if (!rows.run.request_id.empty()) state.requests.emplace(rows.run.request_id, rows.run.id);
  for (const Attempt& attempt : rows.attempts) state.attempts.emplace(attempt.id, attempt);
  for (const Node& node : rows.nodes) state.nodes.emplace(node.id, node);
}

void drop_ended_run(State& state, const RunId& dropped) {
  const RunId id = dropped;  // may be the key of its row
  const auto run = state.runs.find(id);
  LS_CHECK(run != state.runs.end() && is_final(run->second.state), "{}", text(id));
  std::int64_t& highest = state.numbers[id.project];
  highest = std::max(highest, id.number);
  state.requests.erase(run->second.request_id);
  state.runs.erase(run);
  const AttemptId first = first_attempt_of(id);
  const auto ends = [&](auto& rows, auto it, auto run_of) {
    while (it != rows.end() && run_of(it->first) == id) it = rows.erase(it);
  };
  ends(state.attempts, state.attempts.lower_bound(first),
       [](const AttemptId& attempt) { return attempt.run; });
  ends(state.nodes, state.nodes.lower_bound(NodeId{first, 0}),
       [](const NodeId& node) { return node.attempt.run; });
}

void drop_ended_runs(State& state, Time ended_before) {
  const std::set<RunId> awaited = awaited_runs(state);
  std::vector<RunId> old;
  for (const auto& [id, run] : state.runs)
    if (is_final(run.state) && run.ended < ended_before && !awaited.contains(id)) old.push_back(id);
  for (const RunId& id : old) drop_ended_run(state, id);
}

namespace {

template <class Name>
bool is_among(const std::optional<std::vector<Name>>& names, const Name& name) {
  return !names || std::ranges::find(*names, name) != names->end();
}

bool is_listed_before(const RunListPlace& a, const RunListPlace& b) {
  return std::tuple(b.submitted, b.run.number, std::string_view(a.run.project)) <
         std::tuple(a.submitted, a.run.number, std::string_view(b.run.project));
}

bool matches(const Run& run, const RunFilter& filter) {
  return filter.project.value_or(run.id.project) == run.id.project &&
         is_among(filter.projects, run.id.project) && is_among(filter.runs, run.id) &&
         filter.state.value_or(run.state) == run.state &&
         (!filter.tag || has_tag(run.tags, *filter.tag)) &&
         filter.user.value_or(run.origin.user) == run.origin.user &&
         (!filter.since || run.submitted >= *filter.since) &&
         (!filter.until || run.submitted < *filter.until) &&
         (!filter.after || is_listed_before(*filter.after, {run.submitted, run.id}));
}

}  // namespace

std::vector<Run> list_runs(const State& state, const RunFilter& filter) {
  std::vector<const Run*> found;
  for (const auto& [id, run] : state.runs)
    if (matches(run, filter)) found.push_back(&run);
  std::ranges::sort(found, is_listed_before,
                    [](const Run* run) { return RunListPlace{run->submitted, run->id}; });
  found.resize(std::min(static_cast<std::size_t>(filter.limit), found.size()));
  std::vector<Run> runs;
  for (const Run* run : found) runs.push_back(*run);
  return runs;
}

}  // namespace lockstep::model
