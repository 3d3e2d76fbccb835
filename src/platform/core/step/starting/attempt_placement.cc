#include "platform/core/step/starting/attempt_placement.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/ending/attempt_end.h"

namespace lockstep::step {
namespace {

bool has_devices(const map::Host& host, const std::vector<int>& devices) {
  return std::ranges::all_of(devices, [&](int device) {
    return device >= 0 && std::cmp_less(device, map::device_count(host));
  });
}

bool share_a_device(const model::HostDevices& wanted, const model::HostDevices& held) {
  return wanted.host == held.host &&
         std::ranges::find_first_of(wanted.devices, held.devices) != wanted.devices.end();
}

// A store that was restored may reserve devices that a run of another store uses, or a node that
// was given up since.
bool is_used_by_others(const Draft& draft, const model::HostDevices& wanted) {
  return std::ranges::any_of(draft.orphans.current(),
                             [&](const model::Orphan* orphan) {
                               return !orphan->terminated &&
                                      share_a_device(wanted, orphan->devices);
                             }) ||
         std::ranges::any_of(draft.given_up.current(), [&](const model::GivenUpNode* node) {
           return !node->gone && share_a_device(wanted, node->devices);
         });
}

model::Cause cause_of(const model::Run& run, const PreemptionNotice& notice) {
  if (!notice.destination.empty()) return model::Cause::moved;
  return run.spec.run_class == model::RunClass::preemptible ? model::Cause::evicted
                                                            : model::Cause::paused;
}

// "moved from host a to make room for demo/7"
std::string reason_of(model::Cause cause, const std::string& host, const PreemptionNotice& notice) {
  if (!notice.beneficiary) return format("moved off host {}, which is drained", host);
  const std::string other = text(*notice.beneficiary);
  if (cause == model::Cause::moved)
    return format("moved from host {} to make room for {}", host, other);
  return cause == model::Cause::paused ? format("paused to make room for {}", other)
                                       : format("evicted to make room for {}", other);
}

// Agents on the daemon's own machine can always reach it, or it will be started again.
std::optional<Duration> lease_of(const model::RunSpec& spec, std::string_view engine,
                                 Duration lease_of_settings) {
  const bool is_local = engine == model::kLocalEngine;
  const Duration lease = spec.lease.value_or(is_local ? Duration(0) : lease_of_settings);
  return lease == Duration(0) ? std::nullopt : std::optional(lease);
}

}  // namespace

void start_attempt(Draft& draft, sched::Placement placement) {
  model::Run& run = draft.runs.edit(placement.run);
  // For a run that continues, the reason stays visible: "rank 3 ... was killed ...; attempt 2 goes
  // on".
  const model::Attempt* before = draft.attempts.find({run.id, run.epoch});
  const bool resumed = before && before->ended && *before->ended < run.queued;
  run.reason = before ? format("{}; {}", resumed ? "resumed" : before->reason,
                               describe_next_attempt(draft, run, before->cause, {}))
                      : "";
  ++run.epoch;
  run.state = model::RunState::starting;
  model::Attempt attempt;
  attempt.id = {run.id, run.epoch};
  attempt.generation = draft.generation();
  attempt.created = draft.now();
  attempt.is_placed = !placement.devices.front().host.empty();
  attempt.engine = attempt.is_placed ? draft.engine_of(placement.devices.front().host)
                                     : draft.engine_without_host();
  attempt.lease = lease_of(run.spec, attempt.engine, draft.settings().lease);
  for (model::HostDevices& host_devices : placement.devices) {
    model::Node node;
    node.id = {attempt.id, static_cast<int>(&host_devices - placement.devices.data())};
    node.host = std::move(host_devices.host);
    node.devices = std::move(host_devices.devices);
    node.last_heartbeat = draft.now();
    draft.nodes.add(std::move(node));
  }
  draft.add_effect(model::SubmitGang{attempt.id});
  open_charge(draft, draft.attempts.add(std::move(attempt)));
}

bool can_start_on(const Draft& draft, const std::vector<model::HostDevices>& devices) {
  const auto is_available = [&](const model::HostDevices& host_devices) {
    const map::Host* host = map::find_host(draft.map(), host_devices.host);
    const model::HostRow* row = draft.hosts.find(host_devices.host);
    const bool open = !row || model::placement_state(*row) < model::HostState::closed;
    return host && open && has_devices(*host, host_devices.devices) &&
           !is_used_by_others(draft, host_devices);
  };
  return !devices.empty() && std::ranges::all_of(devices, is_available);
}

void preempt_run(Draft& draft, const PreemptionNotice& notice) {
  const model::AttemptId id = draft.live_attempt(notice.run)->id;
  model::Run& run = draft.runs.edit(notice.run);
  const model::Cause cause = cause_of(run, notice);
  const std::string reason = reason_of(cause, draft.nodes_of(id).front()->host, notice);
  begin_draining(draft, id, cause, reason);
  draft.attempts.edit(id).move_destination = notice.destination;
  if (cause == model::Cause::moved) ++run.moves;
  model::add_audit_entry(run.audit, {.time = draft.now(), .by = "", .what = reason});
}

}  // namespace lockstep::step
