#include "platform/core/step/handlers/draft.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/format.h"

namespace lockstep::step {
namespace {

bool differs(const model::Attempt* before, const model::Attempt& after) {
  return !before || *before != after;
}

bool differs(const model::Node* before, const model::Node& after) {
  return !before || model::has_material_change(*before, after);
}

template <class RowId, class Row>
std::int64_t count_new(const Overlay<RowId, Row>& rows) {
  return std::ranges::count_if(rows.changed(),
                               [&](const auto& entry) { return !rows.original(entry.first); });
}

template <class RowId, class Row>
void collect(const Overlay<RowId, Row>& rows, std::vector<model::Change>& changes) {
  for (const auto& [id, row] : rows.changed()) {
    const Row* before = rows.original(id);
    if (!before || *before != row) changes.emplace_back(row);
  }
}

}  // namespace

std::vector<model::RunId> Draft::open_runs() const {
  std::set<model::RunId> open = state_.open;
  for (const auto& [id, run] : runs.changed()) {
    if (model::is_final(run.state))
      open.erase(id);
    else
      open.insert(id);
  }
  return {open.begin(), open.end()};
}

std::set<model::RunId> Draft::conditional_runs() const {
  std::set<model::RunId> found = state_.conditional;
  for (const auto& [id, run] : runs.changed()) {
    if (model::has_condition(run))
      found.insert(id);
    else
      found.erase(id);
  }
  for (const auto& [name, orphan] : orphans.all()) {
    const model::Run* run = runs.find(orphan.id.id.attempt.run);
    if (run && run->state == model::RunState::queued) found.insert(run->id);
  }
  return found;
}

Result<const model::Run*> Draft::require_run(const model::RunId& id) const {
  if (const model::Run* run = runs.find(id)) return run;
  return Error{Code::not_found, format("there is no run {}; `lockstep ps` lists them", text(id))};
}

std::vector<const model::Orphan*> Draft::orphans_of(const model::RunId& run) const {
  std::vector<const model::Orphan*> found;
  const auto add = [&](const model::Orphan* orphan) {
    if (orphan && !orphan->terminated && orphan->id.id.attempt.run == run) found.push_back(orphan);
  };
  for (const auto& [name, orphan] : state_.orphans) add(orphans.find(name));
  for (const auto& [name, orphan] : orphans.changed())
    if (!orphans.original(name)) add(&orphan);
  return found;
}

const model::Attempt* Draft::live_attempt(const model::RunId& id) const {
  const model::Run* run = runs.find(id);
  const model::Attempt* attempt = run ? attempts.find({id, run->epoch}) : nullptr;
  return attempt && attempt->state != model::AttemptState::ended ? attempt : nullptr;
}

std::vector<const model::Attempt*> Draft::live_attempts() const {
  std::vector<const model::Attempt*> live;
  const auto add = [&](const model::Attempt& attempt) {
    if (attempt.state != model::AttemptState::ended) live.push_back(&attempt);
  };
  // Walks both in order; a changed row counts instead of the original one.
  const auto& changed = attempts.changed();
  auto next = changed.begin();
  for (const model::AttemptId& id : state_.live) {
    for (; next != changed.end() && next->first < id; ++next) add(next->second);
    const bool is_changed = next != changed.end() && next->first == id;
    add(is_changed ? (next++)->second : state_.attempts.at(id));
  }
  for (; next != changed.end(); ++next) add(next->second);
  return live;
}

std::vector<model::AttemptId> Draft::live_attempt_ids() const {
  std::vector<model::AttemptId> ids;
  for (const model::Attempt* attempt : live_attempts()) ids.push_back(attempt->id);
  return ids;
}

std::vector<const model::Node*> Draft::nodes_of(const model::AttemptId& attempt) const {
  const auto& changed = nodes.changed();
  const model::NodeId first{attempt, 0};
  // Walks both maps side by side: a search for each of many nodes would take ten times as long.
  auto below = state_.nodes.lower_bound(first);
  auto above = changed.lower_bound(first);
  const auto is_next = [&](const auto& at, const auto& rows, int index) {
    return at != rows.end() && at->first.index == index && at->first.attempt == attempt;
  };
  std::vector<const model::Node*> all;  // indices count from 0 without gaps
  for (int index = 0;; ++index) {
    const bool is_changed = is_next(above, changed, index);
    const bool is_below = is_next(below, state_.nodes, index);
    if (!is_changed && !is_below) return all;
    all.push_back(is_changed ? &above->second : &below->second);
    if (is_changed) ++above;
    if (is_below) ++below;
  }
}

const model::Run* Draft::run_of_request(const std::string& request_id) const {
  const auto found = state_.requests.find(request_id);
  return found == state_.requests.end() ? nullptr : runs.find(found->second);
}

std::map<std::string, model::Usage> Draft::usage() const {
  auto usage = state_.usage;
  for (const auto& [id, run] : runs.changed()) {
    if (const model::Run* before = runs.original(id))
      model::add_usage(usage[id.project], *before, -1);
    model::add_usage(usage[id.project], run);
  }
  return usage;
}

model::RunId Draft::next_run_id(const std::string& project) const {
  const auto newest_of = [&](const std::map<model::RunId, model::Run>& rows) -> std::int64_t {
    const auto after = rows.upper_bound({project, std::numeric_limits<std::int64_t>::max()});
    if (after == rows.begin()) return 0;
    const model::RunId& last = std::prev(after)->first;
    return last.project == project ? last.number : 0;
  };
  const auto given = state_.numbers.find(project);
  return {project, std::max({newest_of(state_.runs), newest_of(runs.changed()),
                             given == state_.numbers.end() ? 0 : given->second}) +
                       1};
}

std::vector<std::string> Draft::projects_with_ended_grants() const {
  std::vector<std::string> projects;
  for (const auto& [end, project] : state_.grant_ends) {
    if (end > now_) break;
    if (budgets.find(project)->available > budget::DeviceTime(0)) projects.push_back(project);
  }
  return projects;
}

Outcome Draft::finish() {
  std::set<model::RunId> touched;
  for (const auto& [id, run] : runs.changed())
    if (!runs.original(id) || *runs.original(id) != run) touched.insert(id);
  for (const auto& [id, attempt] : attempts.changed())
    if (differs(attempts.original(id), attempt)) touched.insert(id.run);
  for (const auto& [id, node] : nodes.changed())
    if (differs(nodes.original(id), node)) touched.insert(id.attempt.run);
  for (const model::RunId& id : touched) ++runs.edit(id).version;

  Outcome outcome;
  collect(runs, outcome.changes);
  collect(attempts, outcome.changes);
  collect(nodes, outcome.changes);
  collect(hosts, outcome.changes);
  collect(limits, outcome.changes);
  collect(budgets, outcome.changes);
  collect(rates, outcome.changes);
  collect(buckets, outcome.changes);
  collect(orphans, outcome.changes);
  collect(given_up, outcome.changes);
  if (const auto created = count_new(runs) + count_new(attempts); created > 0)
    outcome.changes.emplace_back(
        model::StoreRow{state_.store.generation, state_.store.issued + created});
  if (clock && clock != state_.clock) outcome.changes.emplace_back(*clock);
  if (measured && measured != state_.measured) outcome.changes.emplace_back(*measured);
  std::ranges::move(records_, std::back_inserter(outcome.changes));
  outcome.effects = std::move(effects_);
  outcome.submitted = submitted_;
  outcome.attached = attached_;
  return outcome;
}

}  // namespace lockstep::step
