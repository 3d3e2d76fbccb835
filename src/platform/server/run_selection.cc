#include "platform/server/run_selection.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "platform/api/budget_messages.h"
#include "platform/core/step/budget/cost.h"
#include "platform/run_query/match.h"
#include "platform/server/people/reader.h"
#include "platform/server/run_filter.h"
#include "platform/server/views.h"
#include "platform/store/run_values.h"

namespace lockstep::server {
namespace {

using run_query::Operator;
using run_query::Query;
using run_query::Term;

// The parameters as terms, so that an index of a term finds the runs.
void add_parameters(const api::RunsQuery& parameters, Query& query) {
  const auto add = [&query](std::string field, Operator is, std::string value) {
    query.terms.push_back({.field = std::move(field), .is = is, .value = std::move(value)});
  };
  if (parameters.user) add("user", Operator::equal, *parameters.user);
  if (parameters.tag) add("tag", Operator::is_one_of, *parameters.tag);
  if (parameters.state) {
    std::string states(text(*parameters.state));
    if (parameters.state == model::RunState::queued) states += ",held";
    add("state", Operator::is_one_of, std::move(states));
  }
  if (parameters.since)
    add("submitted", Operator::at_least,
        lockstep::text(Time(std::chrono::floor<std::chrono::seconds>(*parameters.since))));
}

bool names_projects(const Query& query) {
  return std::ranges::any_of(query.terms, [](const Term& term) { return term.field == "project"; });
}

bool selects_project(const Query& query, const std::string& name) {
  const run_query::RunValues project{.values = {{"project", name}}};
  return std::ranges::all_of(query.terms, [&](const Term& term) {
    return term.field != "project" || run_query::matches(project, term, Time());
  });
}

// The projects with runs are few, and known.
void limit_projects(const Query& query, const model::State& state, model::RunFilter& filter) {
  if (!names_projects(query) || filter.project) return;
  std::vector<std::string> names;
  for (const auto& [name, number] : state.numbers)
    if ((!filter.projects || std::ranges::count(*filter.projects, name) > 0) &&
        selects_project(query, name))
      names.push_back(name);
  if (names.size() == 1) filter.project = names.front();
  filter.projects = std::move(names);
}

std::map<model::RunId, store::LiveUse> live_use(const model::State& state, const Query& query,
                                                Time now) {
  std::map<model::RunId, store::LiveUse> live;
  const auto names = run_query::names_in(query);
  if (!names.contains("running") && !names.contains("cost")) return live;
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    live[id] = {.running_seconds = running_seconds(state, run, now),
                .cost_minutes = api::device_minutes(step::cost_of(state, run, now).so_far)};
  }
  return live;
}

// `lockstep ps` shows these, too.
std::map<model::RunId, std::string> wait_reasons(const CallContext& context, const Query& query) {
  std::map<model::RunId, std::string> reasons;
  if (!run_query::names_in(query).contains("reason") && !run_query::has_words(query))
    return reasons;
  for (const sched::WaitingRun& waiting : context.controller().scheduler().waiting())
    reasons.emplace(waiting.run, waiting.reason);
  return reasons;
}

}  // namespace

Result<store::SelectedRuns> select_runs(const CallContext& context, const Principal& caller,
                                        const api::RunsQuery& query) {
  if (query.sort || query.value || query.descending)
    return Error{Code::invalid,
                 "sort, value and descending go without query, which has sort:NAME or sort:-NAME"};
  store::RunSelection selection{.query = TRY(run_query::parse_query(query.query.value_or(""))),
                                .after = query.after,
                                .now = context.now()};
  auto filter = readable_runs(context, caller, query);
  if (!filter) return store::SelectedRuns();
  limit_projects(selection.query, context.state(), *filter);
  filter->limit = selection.query.group ? store::kRunsLookedAt : query.limit;
  selection.filter = *std::move(filter);
  add_parameters(query, selection.query);
  selection.live = live_use(context.state(), selection.query, selection.now);
  selection.wait_reasons = wait_reasons(context, selection.query);
  const Reader reader(context.accounts().directory(), caller.bearer, context.state());
  selection.readable_reason = [&reader](std::string_view text) {
    return reader.without_names(text);
  };
  return store::select_runs(context.setup().database, selection);
}

std::vector<api::RunGroup> groups_of(const std::vector<store::SelectedRun>& runs) {
  std::vector<api::RunGroup> groups;
  std::map<std::string, std::size_t> places;
  for (const store::SelectedRun& run : runs) {
    const std::string value = run_query::text(run.group);
    const auto [place, is_new] = places.emplace(value, groups.size());
    if (is_new) groups.push_back({.value = value});
    api::RunGroup& group = groups[place->second];
    ++group.runs;
    ++group.states[run.state == "held" ? "queued" : run.state];
    const auto* number = std::get_if<double>(&run.sorted);
    if (number == nullptr || !std::isfinite(*number)) continue;
    group.least = group.numbers == 0 ? *number : std::min(group.least, *number);
    group.greatest = group.numbers == 0 ? *number : std::max(group.greatest, *number);
    group.sum += *number;
    ++group.numbers;
  }
  return groups;
}

std::string unread_runs_problem(const CallContext& context) {
  const auto left = store::runs_without_values(context.setup().database);
  if (!left || *left == 0) return "";
  return "the settings of runs of an earlier version are still being read: a query may miss such "
         "runs, or select too many";
}

}  // namespace lockstep::server
