// Requests of users and operators that change waiting runs, hosts and limits.
#include <algorithm>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/model/slurm_request.h"
#include "platform/core/step/budget/personal.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {
namespace {

constexpr int kDevicesMax = 100'000'000;
constexpr Duration kIdleStopMin = std::chrono::seconds(20);  // two windows of the agents
constexpr Duration kIdleStopMax = std::chrono::hours(24 * 30);

void add_run_audit(Draft& draft, model::Run& run, const std::string& by, std::string what) {
  model::add_audit_entry(run.audit,
                         {.time = draft.now(), .by = one_line(by), .what = std::move(what)});
}

// "by ann: the data set is being replaced"
std::string actor_and_reason(const std::string& by, const std::string& reason) {
  std::string result = by.empty() ? "" : "by " + one_line(by);
  if (!reason.empty()) result += (result.empty() ? "" : ": ") + one_line(reason);
  return result.empty() ? "by a user" : result;
}

// Slurm and Kubernetes end its nodes at the limit that they were started with.
bool has_limit_of_engine(const model::Attempt& attempt) {
  return attempt.engine == model::kSlurmEngine || attempt.engine == model::kPodEngine;
}

Result<void> check_extension(const Draft& draft, const model::Run& run, Duration extension) {
  if (model::is_external(run))
    return Error{Code::invalid, format("{} was started by {}, which bounds its time: extend it "
                                       "there",
                                       text(run.id), run.launcher)};
  if (model::is_final(run.state))
    return Error{Code::invalid, format("{} has ended, it is {}; `lockstep resume {}` gives it its "
                                       "time again",
                                       text(run.id), text(run.state), text(run.id))};
  const model::Attempt* attempt = draft.live_attempt(run.id);
  if (attempt && attempt->state == model::AttemptState::draining)
    return Error{Code::invalid, format("{} is ending: {}", text(run.id), attempt->reason)};
  if (attempt && has_limit_of_engine(*attempt))
    return Error{Code::invalid,
                 format("{} runs with a time limit of {} that cannot be raised; it can be extended "
                        "while it waits",
                        text(run.id), attempt->engine)};
  Duration longest = model::timeout_max(run.spec.run_class);
  if (may_use_bucket(draft, run))
    longest = std::min(longest, draft.settings().personal_timeout_max);
  const Duration most = longest - model::time_limit(run);
  if (extension > Duration(0) && extension <= most) return {};
  return Error{
      Code::invalid,
      most <= Duration(0)
          ? format("{} has the longest time limit of its class {} and project, {}", text(run.id),
                   lockstep::name_of(run.spec.run_class), lockstep::text(model::time_limit(run)))
          : format("extension: must be more than 0s and at most {}, got {}", lockstep::text(most),
                   lockstep::text(extension))};
}

std::string_view verb_for(model::HostState state) {
  switch (state) {
    case model::HostState::open:
      return "released";
    case model::HostState::avoided:
      return "avoided";
    case model::HostState::closed:
      return "cordoned";
    case model::HostState::drained:
      return "drained";
  }
  return "";
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::HoldRun& event) {
  const model::Run* found = TRY(draft.require_run(event.run));
  if (found->state != model::RunState::queued)
    return Error{
        Code::invalid,
        format("{} is {}; only a run that waits can be held{}", text(found->id), text(found->state),
               model::is_final(found->state)
                   ? std::string()
                   : format(", and `lockstep stop {}` ends it", text(found->id)))};
  if (found->held && event.reason.empty()) return {};  // keeps its reason
  model::Run& run = draft.runs.edit(event.run);
  run.held = actor_and_reason(event.by, event.reason);
  add_run_audit(draft, run, event.by,
                event.reason.empty() ? "held" : "held: " + one_line(event.reason));
  set_wait_reason(draft, run);
  return {};
}

// No change if the run is not held: a second release is no error.
Result<void> handle_event(Draft& draft, const model::ReleaseRun& event) {
  if (!TRY(draft.require_run(event.run))->held) return {};
  model::Run& run = draft.runs.edit(event.run);
  run.held.reset();
  add_run_audit(draft, run, event.by, "released");
  set_wait_reason(draft, run);
  return {};
}

Result<void> handle_event(Draft& draft, const model::SetPriority& event) {
  const model::Run* found = TRY(draft.require_run(event.run));
  if (model::is_final(found->state))
    return Error{Code::invalid,
                 format("{} has ended, it is {}; nothing waits that a priority could "
                        "bring forward",
                        text(found->id), text(found->state))};
  if (event.priority < -model::kPriorityMax || event.priority > model::kPriorityMax)
    return Error{Code::invalid, format("priority: must be from {} to {}, got {}",
                                       -model::kPriorityMax, model::kPriorityMax, event.priority)};
  if (found->priority == event.priority) return {};
  model::Run& run = draft.runs.edit(event.run);
  add_run_audit(draft, run, event.by,
                format("priority {}, it was {}", event.priority, run.priority));
  run.priority = event.priority;
  return {};
}

Result<void> handle_event(Draft& draft, const model::ExtendRun& event) {
  const model::Run* found = TRY(draft.require_run(event.run));
  TRY(check_extension(draft, *found, event.extension));
  model::Run& run = draft.runs.edit(event.run);
  run.extended += event.extension;
  add_run_audit(draft, run, event.by,
                format("time limit {}, it was {}", lockstep::text(model::time_limit(run)),
                       lockstep::text(model::time_limit(run) - event.extension)));
  return {};
}

Result<void> handle_event(Draft& draft, const model::AnnotateRun& event) {
  const model::Run* found = TRY(draft.require_run(event.run));
  auto tags = TRY(model::changed_tags(found->tags, event.tags));
  if (event.note) TRY(model::check_note(*event.note));
  if (tags == found->tags && event.note.value_or(found->note) == found->note) return {};
  model::Run& run = draft.runs.edit(event.run);
  run.tags = std::move(tags);
  if (event.note) run.note = *event.note;
  return {};
}

Result<void> handle_event(Draft& draft, const model::SetHost& event) {
  if (!map::find_host(draft.map(), event.host))
    return Error{Code::not_found,
                 format("there is no host '{}' on the map; `lockstep host ls` lists "
                        "them",
                        one_line(event.host))};
  const model::HostRow* found = draft.hosts.find(event.host);
  const model::HostState before = found ? found->state : model::HostState::open;
  const std::string reason =
      event.state == model::HostState::open ? "" : actor_and_reason(event.by, event.reason);
  if (before == event.state && (!found || found->reason == reason)) return {};
  model::HostRow& host = draft.hosts.edit_or_add(event.host);
  if (before != event.state) host.since = draft.now();
  host.state = event.state;
  if (event.state == model::HostState::open) host.losses.clear();
  host.reason = reason;
  std::string what(verb_for(event.state));
  if (!event.reason.empty()) what += ": " + one_line(event.reason);
  model::add_audit_entry(host.audit,
                         {.time = draft.now(), .by = one_line(event.by), .what = std::move(what)});
  return {};
}

Result<void> handle_event(Draft& draft, const model::SetLimit& event) {
  TRY(model::check_name(text(event.limit.scope), event.limit.name));
  if (event.devices && (*event.devices < 0 || *event.devices > kDevicesMax))
    return Error{Code::invalid,
                 format("devices: must be from 0 to {}, got {}", kDevicesMax, *event.devices)};
  if (!event.devices && !draft.limits.find(event.limit)) return {};
  draft.limits.edit_or_add(event.limit).devices = event.devices;
  return {};
}

// Queued runs keep the fair share of their submission.
Result<void> handle_event(Draft& draft, const model::SetWeight& event) {
  const model::LimitId project{model::LimitScope::project, event.project};
  TRY(model::check_name(text(project.scope), project.name));
  if (event.weight < 1 || event.weight > model::kWeightMax)
    return Error{Code::invalid,
                 format("weight: must be from 1 to {}, got {}", model::kWeightMax, event.weight)};
  draft.limits.edit_or_add(project).weight = event.weight;
  return {};
}

Result<void> handle_event(Draft& draft, const model::SetIdleStop& event) {
  const model::LimitId project{model::LimitScope::project, event.project};
  TRY(model::check_name(text(project.scope), project.name));
  const auto& wish = event.idle_stop;
  if (wish && *wish != Duration(0) && (*wish < kIdleStopMin || *wish > kIdleStopMax))
    return Error{Code::invalid, format("idle_stop: must be from {} to {}, or off, not {}",
                                       text(kIdleStopMin), text(kIdleStopMax), text(*wish))};
  if (!wish && !draft.limits.find(project)) return {};
  draft.limits.edit_or_add(project).idle_stop = wish;
  return {};
}

}  // namespace lockstep::step
