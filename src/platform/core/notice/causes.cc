#include "platform/core/notice/causes.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "base/format.h"
#include "platform/core/budget/warning.h"

namespace lockstep::notice {
namespace {

using model::Notice;
using model::NoticeKind;
using model::RunState;

// One name for one fact of one store.
void set_id(Notice& notice, const model::State& state) {
  notice.id = format("{}.{}.{}.{}", state.store.generation,
                     notice.run.empty() ? notice.project : notice.run, name_of(notice.kind),
                     notice.time.time_since_epoch().count());
}

Notice of_run(const model::Run& run, NoticeKind kind, Time time) {
  return {.id = {},
          .kind = kind,
          .time = time,
          .project = run.id.project,
          .run = text(run.id),
          .name = run.spec.name,
          .user = run.origin.user};
}

Notice end_of(const model::State& before, const model::Run& run, Time now) {
  const bool has_failed = run.state == RunState::failed || run.state == RunState::timed_out;
  Notice notice = of_run(run, has_failed ? NoticeKind::run_failed : NoticeKind::run_ended,
                         run.ended.value_or(now));
  notice.state = text(run.state);
  notice.reason = run.reason;
  if (run.started) notice.duration = run.time_used;
  set_id(notice, before);
  return notice;
}

bool had_ended(const model::State& state, const model::RunId& id) {
  const auto found = state.runs.find(id);
  return found != state.runs.end() && model::is_final(found->second.state);
}

int warned_before(const model::State& state, const std::string& project) {
  const auto found = state.budgets.find(project);
  return found == state.budgets.end() ? 0 : found->second.warned.percent;
}

Notice warning_of(const model::State& before, const budget::Budget& budget, Time now) {
  Notice notice{.id = {},
                .kind = NoticeKind::budget_warning,
                .time = now,
                .project = budget.id,
                .used_percent = budget::used_percent(budget)};
  set_id(notice, before);
  return notice;
}

}  // namespace

std::vector<Notice> notices_of(const model::State& before, std::span<const model::Change> changes,
                               Time now) {
  // The last row of each counts: several events may be decided at once.
  std::map<model::RunId, const model::Run*> runs;
  std::map<std::string, const budget::Budget*> budgets;
  for (const model::Change& change : changes) {
    if (const auto* run = std::get_if<model::Run>(&change)) runs[run->id] = run;
    if (const auto* budget = std::get_if<budget::Budget>(&change)) budgets[budget->id] = budget;
  }
  std::vector<Notice> notices;
  for (const auto& [id, run] : runs)
    if (model::is_final(run->state) && !had_ended(before, id))
      notices.push_back(end_of(before, *run, now));
  for (const auto& [project, budget] : budgets)
    if (budget->warned.percent > warned_before(before, project))
      notices.push_back(warning_of(before, *budget, now));
  return notices;
}

Notice finding_of(const model::State& state, const std::string& project, const model::Run* run,
                  std::string text, Time now) {
  Notice notice =
      run ? of_run(*run, NoticeKind::finding, now)
          : Notice{.id = {}, .kind = NoticeKind::finding, .time = now, .project = project};
  notice.reason = std::move(text);
  set_id(notice, state);
  return notice;
}

}  // namespace lockstep::notice
