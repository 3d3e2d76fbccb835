#include "platform/core/step/starting/preconditions.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/ending/attempt_end.h"

namespace lockstep::step {
namespace {

// Far more than a cluster starts in a day; each costs memory and time in every pass.
constexpr std::size_t kOpenRunsMax = 50'000;

// A dependency that ended without success; else the first that has not succeeded; null if all have
// succeeded. The names were checked at submission.
const model::Run* blocking_dependency(const Draft& draft, const model::RunSpec& spec) {
  const model::Run* first = nullptr;
  for (const std::string& name : spec.after) {
    const model::Run* run = draft.runs.find(model::parse_run_id(name).value());
    if (!run || run->state == model::RunState::succeeded) continue;
    if (model::is_final(run->state)) return run;
    if (!first) first = run;
  }
  return first;
}

std::string orphan_wait_reason(const model::RunId& run) {
  return format(
      "{} of another store is active here; `lockstep orphan adopt {}` takes it over, "
      "`lockstep orphan stop {}` ends it",
      text(run), text(run), text(run));
}

std::string in_seconds_text(Time time) {
  return text(Time(std::chrono::floor<std::chrono::seconds>(time)));
}

// A failed dependency may be resumed later; the user then resumes this run, too.
void update_dependencies(Draft& draft, const model::RunId& id) {
  const model::Run* before = blocking_dependency(draft, draft.runs.find(id)->spec);
  model::Run& run = draft.runs.edit(id);
  if (before && model::is_final(before->state))
    return end_run(run, model::RunState::cancelled,
                   format("{}, after which it was to start, {}; resume both with `lockstep resume`",
                          text(before->id),
                          before->state == model::RunState::failed      ? "has failed"
                          : before->state == model::RunState::timed_out ? "reached its time-out"
                                                                        : "was cancelled"),
                   draft.now());
  run.awaits_dependencies = before != nullptr;
  set_wait_reason(draft, run);
}

// True if a run of this spec depends on `before`, directly or through others.
bool depends_on(const Draft& draft, const model::RunSpec& spec, const model::RunId& before) {
  std::vector<std::string> names = spec.after;
  std::set<std::string> seen;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (name == text(before)) return true;
    if (!seen.insert(name).second) continue;
    const auto id = model::parse_run_id(name);
    const model::Run* run = id ? draft.runs.find(*id) : nullptr;
    if (run) names.insert(names.end(), run->spec.after.begin(), run->spec.after.end());
  }
  return false;
}

}  // namespace

void init_preconditions(const Draft& draft, model::Run& run) {
  run.awaits_dependencies = blocking_dependency(draft, run.spec) != nullptr;
  run.awaits_budget = missing_budget(draft, run);
  if (run.spec.not_before && *run.spec.not_before > draft.now())
    run.not_before = run.spec.not_before;
  set_wait_reason(draft, run);
}

void set_wait_reason(const Draft& draft, model::Run& run) {
  if (!draft.orphans_of(run.id).empty())
    run.reason = orphan_wait_reason(run.id);
  else if (run.held)
    run.reason = "held " + *run.held;
  else if (const model::Run* before =
               run.awaits_dependencies ? blocking_dependency(draft, run.spec) : nullptr)
    run.reason = format("waits until {} has succeeded", text(before->id));
  else if (run.awaits_budget)
    run.reason = budget_wait_reason(draft, run);
  else if (run.not_before)
    run.reason = format("does not start before {}", in_seconds_text(*run.not_before));
  else
    run.reason = kWaitsForPass;
}

void check_preconditions(Draft& draft, const model::RunId& id) {
  const model::Run& run = *draft.runs.find(id);
  if (run.state != model::RunState::queued) return;
  if (!draft.orphans_of(id).empty() && run.reason != orphan_wait_reason(id))
    set_wait_reason(draft, draft.runs.edit(id));
  if (run.not_before && *run.not_before <= draft.now()) {
    model::Run& ready = draft.runs.edit(id);
    ready.not_before.reset();
    set_wait_reason(draft, ready);
  }
  check_budget(draft, id);
  if (run.awaits_dependencies) update_dependencies(draft, id);
}

Error no_such_dependency(const model::RunId& run) {
  return {Code::invalid,
          format("after: there is no run {}; a run follows those that were submitted "
                 "before it, and `lockstep ps` lists them",
                 text(run))};
}

Result<void> check_open_runs(const Draft& draft) {
  if (draft.open_count() < kOpenRunsMax) return {};
  return Error{Code::exhausted,
               format("{} runs have not ended, and there may be no more; wait until some have, or "
                      "stop some with `lockstep stop`",
                      draft.open_count())};
}

Result<void> check_dependencies(const Draft& draft, const model::RunSpec& spec) {
  for (const std::string& name : spec.after) {
    const model::RunId id = TRY(model::parse_run_id(name));
    const model::Run* run = draft.runs.find(id);
    if (!run) return no_such_dependency(id);
    if (model::is_final(run->state) && run->state != model::RunState::succeeded)
      return Error{Code::invalid, format("after: {} has ended as {}, so the run would never start; "
                                         "resume that one first, or leave it out",
                                         text(id), text(run->state))};
  }
  return {};
}

Result<void> check_checkpoint_folder(const Draft& draft, const model::RunId& id,
                                     const model::RunSpec& spec,
                                     const std::vector<model::RunId>& same_folder) {
  for (const model::RunId& other : same_folder) {
    const model::Run* run = draft.runs.find(other);
    if (other == id || !run || depends_on(draft, spec, other) || depends_on(draft, run->spec, id))
      continue;
    const auto folder = spec.checkpoint_folder.empty() ? "its folder" : spec.checkpoint_folder;
    return Error{Code::invalid,
                 format("checkpoint_folder: {} writes to {} and has not ended; give this run a "
                        "folder of its own with --checkpoint-folder, start it behind that one with "
                        "--after {}, or stop {}",
                        text(other), folder, text(other), text(other))};
  }
  return {};
}

}  // namespace lockstep::step
