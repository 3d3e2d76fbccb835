// Requests of users: submit, stop and resume a run.
#include <functional>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/model/command.h"
#include "platform/core/model/slurm_labels.h"
#include "platform/core/sched/pass.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/host_labels.h"
#include "platform/core/step/starting/preconditions.h"
#include "platform/core/step/starting/project_share.h"

namespace lockstep::step {
namespace {

Result<void> check_started_by_lockstep(const model::Run& run, std::string_view act) {
  if (!model::is_external(run)) return {};
  return Error{Code::invalid, format("{} was started by {}, and not by Lockstep: {} it there",
                                     text(run.id), run.launcher, act)};
}

Result<void> check_resumable(const model::Run& run) {
  if (run.state == model::RunState::succeeded)
    return Error{Code::invalid, format("{} has succeeded, so there is nothing to resume; submit a "
                                       "new run with `lockstep run`",
                                       text(run.id))};
  if (!model::is_final(run.state))
    return Error{Code::invalid,
                 format("{} has not ended, it is {}; `lockstep stop {}` ends it, and once it has "
                        "ended it can be resumed",
                        text(run.id), text(run.state), text(run.id))};
  return {};
}

sched::PendingRun fit_request_of(const model::RunId& id, const model::RunSpec& spec) {
  return {.run = id,
          .nodes = spec.nodes,
          .devices = spec.devices,
          .remainder = spec.remainder,
          .needs = model::placement_needs(spec)};
}

// With the time limit of its class, if it names none. On Slurm, the partition and the constraint
// are labels of hosts for the scheduler.
model::RunSpec spec_to_place(const Draft& draft, model::RunSpec spec) {
  if (!spec.timeout) spec.timeout = model::timeout_default(spec.run_class, draft.settings());
  if (!spec.slurm || !draft.has_engine(model::kSlurmEngine)) return spec;
  auto labels = model::labels_of(*spec.slurm);
  if (labels.empty()) return spec;
  if (!spec.needs.labels) spec.needs.labels.emplace();
  spec.needs.labels->merge(labels);
  return spec;
}

// A repeated request id must be for the same run.
Result<void> check_same(const Draft& draft, const model::Run& run, const model::SubmitRun& repeat) {
  model::RunSpec spec = repeat.spec;
  if (!spec.timeout) spec.timeout = run.spec.timeout;  // the settings may have changed since
  if (run.spec == spec_to_place(draft, std::move(spec))) return {};
  return Error{Code::invalid,
               format("request_id: '{}' has submitted {}, which is another run than this one; "
                      "choose a new id for each run",
                      repeat.request_id, text(run.id))};
}

// A longer one would hold devices beyond the time that start estimates assume.
Result<void> check_grace_period(const model::RunSpec& spec, const model::Settings& settings) {
  const Duration grace = model::grace_period_of(spec, settings);
  if (grace >= Duration(0) && grace + kStopMargin <= settings.log_delivery_limit) return {};
  return Error{Code::invalid,
               format("grace_period: must be from 0s to {}, not {}; the daemon's setting "
                      "log_delivery_limit bounds it",
                      text(settings.log_delivery_limit - kStopMargin), text(grace))};
}

// Agents need `unreachable_after` to call again after a break.
Result<void> check_lease(const model::RunSpec& spec, const model::Settings& settings) {
  if (!spec.lease || *spec.lease == Duration(0) || *spec.lease >= settings.unreachable_after)
    return {};
  return Error{Code::invalid,
               format("lease: must be 0s (never), or at least {}, the daemon's setting "
                      "unreachable_after, not {}",
                      text(settings.unreachable_after), text(*spec.lease))};
}

// Lockstep sets the variable to the GPUs of the allocation. Another value would be lost, or name
// GPUs of other runs. An empty value hides all GPUs, which harms no other run.
Result<void> check_cuda_devices(const map::ClusterMap& map, const model::RunSpec& spec) {
  const auto set = spec.env.find("CUDA_VISIBLE_DEVICES");
  if (set == spec.env.end() || set->second.empty()) return {};
  if (spec.needs.kind == map::DeviceKind::core) return {};
  for (const map::Host* host : map::hosts(map))
    for (const map::Device* device : map::devices(*host))
      if (device->kind == map::DeviceKind::gpu)
        return Error{Code::invalid,
                     format("env: CUDA_VISIBLE_DEVICES is '{}', and Lockstep sets it to the GPUs "
                            "that the run gets; leave it out and ask for `--devices`, or set it to "
                            "nothing to hide all GPUs",
                            set->second)};
  return {};
}

// A run that is larger than the limit of its project or user would wait forever.
Result<void> check_limits(const Draft& draft, const model::RunSpec& spec,
                          const model::Origin& origin) {
  const int devices = model::rank_count(spec);
  for (const model::LimitId& id : {model::LimitId{model::LimitScope::project, spec.project},
                                   model::LimitId{model::LimitScope::user, origin.user}}) {
    const model::LimitRow* limit = draft.limits.find(id);
    if (!limit || !limit->devices || devices <= *limit->devices) continue;
    return Error{Code::invalid,
                 format("needs {} devices, and the {} may hold {} at once; ask for less, or see "
                        "`lockstep limits`",
                        devices, text(id), *limit->devices)};
  }
  return {};
}

// A run that the map cannot hold is refused, unless hosts may join: then it waits for them. Labels
// that no host has are refused always: they may be a typing error.
Result<void> check_fits_map(const Draft& draft, const model::RunId& id,
                            const model::RunSpec& spec) {
  TRY(check_labels_exist(draft.map(), spec.needs));
  if (draft.map_growth() != sched::MapGrowth::none) return {};
  const sched::PendingRun run = fit_request_of(id, spec);
  if (!draft.has_placing_engine()) return sched::check_fits(draft.map(), run);
  const auto is_of_engine = [&](const map::Pod& pod) { return draft.is_of_placing_engine(pod); };
  return sched::check_fits(sched::HostTable(draft.map(), std::not_fn(is_of_engine)),
                           sched::engine_host_table(sched::HostTable(draft.map(), is_of_engine)),
                           run);
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::SubmitRun& event) {
  if (const model::Run* known = draft.run_of_request(event.request_id)) {
    draft.set_submitted(known->id);
    return check_same(draft, *known, event);
  }
  if (!event.request_id.empty()) TRY(model::check_name("request_id", event.request_id));
  TRY(check_open_runs(draft));
  TRY(model::check(event.spec));
  TRY(check_dependencies(draft, event.spec));
  TRY(check_limits(draft, event.spec, event.origin));
  TRY(check_cuda_devices(draft.map(), event.spec));
  TRY(check_grace_period(event.spec, draft.settings()));
  TRY(check_lease(event.spec, draft.settings()));
  model::Run run;
  run.id = draft.next_run_id(event.spec.project);
  TRY(check_checkpoint_folder(draft, run.id, event.spec, event.runs_in_same_folder));
  run.generation = draft.generation();
  run.spec = spec_to_place(draft, event.spec);
  TRY(model::check(run.spec));
  TRY(check_fits_map(draft, run.id, run.spec));
  run.origin = event.origin;
  run.request_id = event.request_id;
  run.submitted = draft.now();
  run.queued = draft.now();
  run.fair_share_used = fair_share_used_by(draft, run.id.project);
  run.priority = event.spec.priority;
  TRY(choose_budget(draft, run, event.project_kind));
  init_preconditions(draft, run);
  draft.set_submitted(run.id);
  draft.runs.add(std::move(run));
  return {};
}

// No change if the run has ended or is being stopped: a second stop is no error.
Result<void> handle_event(Draft& draft, const model::StopRun& event) {
  const model::Run* found = TRY(draft.require_run(event.run));
  if (model::is_final(found->state) || found->stop_requested) return {};
  TRY(check_started_by_lockstep(*found, "end"));
  const auto reason =
      event.reason.empty() ? std::string("stopped") : "stopped: " + one_line(event.reason);
  model::Run& run = draft.runs.edit(event.run);
  run.stop_requested = true;
  if (const model::Attempt* attempt = draft.live_attempt(event.run))
    begin_draining(draft, attempt->id, model::Cause::cancelled, reason);
  else
    end_run(run, model::RunState::cancelled, reason, draft.now());
  return {};
}

// The time limit and the retries start again.
Result<void> handle_event(Draft& draft, const model::ResumeRun& event) {
  const model::Run& found = *TRY(draft.require_run(event.run));
  TRY(check_started_by_lockstep(found, "start"));
  TRY(check_resumable(found));
  TRY(check_open_runs(draft));
  TRY(check_fits_map(draft, found.id, found.spec));
  TRY(check_checkpoint_folder(draft, found.id, found.spec, event.runs_in_same_folder));
  model::Run& run = draft.runs.edit(event.run);
  run.fair_share_used = fair_share_used_by(draft, run.id.project);
  run.state = model::RunState::queued;
  run.queued = draft.now();
  run.ended.reset();
  run.time_used = Duration(0);
  run.user_exits = 0;
  run.losses = 0;
  run.moves = 0;
  run.extended = Duration(0);
  run.stop_requested = false;
  init_preconditions(draft, run);
  return {};
}

}  // namespace lockstep::step
