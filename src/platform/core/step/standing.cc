#include "platform/core/step/standing.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/core/step/ending.h"

namespace lockstep {
namespace {

// Of a run's predecessors one that ended badly, else the first that has not succeeded; null if all
// have. The names were read when it was submitted.
const Run* predecessor(const Draft& draft, const RunSpec& spec) {
  const Run* first = nullptr;
  for (const std::string& name : spec.after) {
    const Run* run = draft.runs.find(parse_run_id(name).value());
    if (!run || run->state == RunState::succeeded) continue;
    if (is_final(run->state)) return run;
    if (!first) first = run;
  }
  return first;
}

std::string words_on_orphan(const RunId& run) {
  return format(
      "{} of another store goes on here; `lockstep orphan adopt {}` takes it over, "
      "`lockstep orphan stop {}` ends it",
      text(run), text(run), text(run));
}

std::string in_seconds_text(Time time) {
  return text(Time(std::chrono::floor<std::chrono::seconds>(time)));
}

// A predecessor that ended badly may be resumed one day; who waits for that resumes the run, too.
void check_predecessors(Draft& draft, const RunId& id) {
  const Run* before = predecessor(draft, draft.runs.find(id)->spec);
  Run& run = draft.runs.edit(id);
  if (before && is_final(before->state))
    return end_run(run, RunState::cancelled,
                   format("{}, after which it was to start, {}; resume both with `lockstep resume`",
                          text(before->id),
                          before->state == RunState::failed      ? "has failed"
                          : before->state == RunState::timed_out ? "reached its time-out"
                                                                 : "was cancelled"),
                   draft.now());
  run.awaits_others = before != nullptr;
  tell_standing(draft, run);
}

// Whether a run of this spec waits until `before` has succeeded, maybe through others.
bool comes_after(const Draft& draft, const RunSpec& spec, const RunId& before) {
  std::vector<std::string> names = spec.after;
  std::set<std::string> seen;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (name == text(before)) return true;
    if (!seen.insert(name).second) continue;
    const auto id = parse_run_id(name);
    const Run* run = id ? draft.runs.find(*id) : nullptr;
    if (run) names.insert(names.end(), run->spec.after.begin(), run->spec.after.end());
  }
  return false;
}

}  // namespace

void take_wishes(const Draft& draft, Run& run) {
  run.awaits_others = predecessor(draft, run.spec) != nullptr;
  if (run.spec.not_before && *run.spec.not_before > draft.now())
    run.not_before = run.spec.not_before;
  tell_standing(draft, run);
}

void tell_standing(const Draft& draft, Run& run) {
  if (!draft.orphans_of(run.id).empty())
    run.reason = words_on_orphan(run.id);
  else if (run.held)
    run.reason = "held " + *run.held;
  else if (const Run* before = run.awaits_others ? predecessor(draft, run.spec) : nullptr)
    run.reason = format("waits until {} has succeeded", text(before->id));
  else if (run.not_before)
    run.reason = format("does not start before {}", in_seconds_text(*run.not_before));
  else
    run.reason = kUnplaced;
}

void check_standing(Draft& draft, const RunId& id) {
  const Run& run = *draft.runs.find(id);
  if (run.state != RunState::queued) return;
  if (!draft.orphans_of(id).empty() && run.reason != words_on_orphan(id))
    tell_standing(draft, draft.runs.edit(id));
  if (run.not_before && *run.not_before <= draft.now()) {
    Run& ready = draft.runs.edit(id);
    ready.not_before.reset();
    tell_standing(draft, ready);
  }
  if (run.awaits_others) check_predecessors(draft, id);
}

Result<void> check_after(const Draft& draft, const RunSpec& spec) {
  for (const std::string& name : spec.after) {
    const RunId id = TRY(parse_run_id(name));
    const Run* run = draft.runs.find(id);
    if (!run)
      return Error{Code::invalid,
                   format("after: there is no run {}; a run follows those that were submitted "
                          "before it, and `lockstep ps` lists them",
                          text(id))};
    if (is_final(run->state) && run->state != RunState::succeeded)
      return Error{Code::invalid, format("after: {} has ended as {}, so the run would never start; "
                                         "resume that one first, or leave it out",
                                         text(id), text(run->state))};
  }
  return {};
}

Result<void> check_checkpoint_folder(const Draft& draft, const RunId& id, const RunSpec& spec,
                                     const std::vector<RunId>& same_folder) {
  for (const RunId& other : same_folder) {
    const Run* run = draft.runs.find(other);
    if (other == id || !run || comes_after(draft, spec, other) || comes_after(draft, run->spec, id))
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

}  // namespace lockstep
