#include "platform/core/step/starting/attempt_placement.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/attempt_end.h"

namespace lockstep {
namespace {

bool has_devices(const Host& host, const std::vector<int>& devices) {
  return std::ranges::all_of(devices, [&](int device) {
    return device >= 0 && std::cmp_less(device, device_count(host));
  });
}

Cause cause_of(const Run& run, const PreemptionNotice& notice) {
  if (!notice.destination.empty()) return Cause::moved;
  return run.spec.run_class == RunClass::preemptible ? Cause::evicted : Cause::paused;
}

// "moved from host a to make room for demo/7"
std::string reason_of(Cause cause, const std::string& host, const PreemptionNotice& notice) {
  if (!notice.beneficiary) return format("moved off host {}, which is drained", host);
  const std::string other = text(*notice.beneficiary);
  if (cause == Cause::moved) return format("moved from host {} to make room for {}", host, other);
  return cause == Cause::paused ? format("paused to make room for {}", other)
                                : format("evicted to make room for {}", other);
}

}  // namespace

void start_attempt(Draft& draft, Placement placement) {
  Run& run = draft.runs.edit(placement.run);
  // For a run that continues, the reason stays visible: "rank 3 ... was killed ...; attempt 2 goes
  // on".
  const Attempt* before = draft.attempts.find({run.id, run.epoch});
  const bool resumed = before && before->ended && *before->ended < run.queued;
  run.reason = before ? format("{}; {}", resumed ? "resumed" : before->reason,
                               describe_next_attempt(draft, run, before->cause, {}))
                      : "";
  ++run.epoch;
  run.state = RunState::starting;
  Attempt attempt;
  attempt.id = {run.id, run.epoch};
  attempt.generation = draft.generation();
  attempt.created = draft.now();
  for (HostDevices& host_devices : placement.devices) {
    Node node;
    node.id = {attempt.id, static_cast<int>(&host_devices - placement.devices.data())};
    node.host = std::move(host_devices.host);
    node.devices = std::move(host_devices.devices);
    node.last_heartbeat = draft.now();
    draft.add_effect(LaunchNode{node.id});
    draft.nodes.add(std::move(node));
  }
  draft.attempts.add(std::move(attempt));
}

bool can_start_on(const Draft& draft, const std::vector<HostDevices>& devices) {
  const auto is_available = [&](const HostDevices& host_devices) {
    const Host* host = find_host(draft.map(), host_devices.host);
    const HostRow* row = draft.hosts.find(host_devices.host);
    const bool open = !row || row->state < HostState::closed;
    return host && open && has_devices(*host, host_devices.devices);
  };
  return !devices.empty() && std::ranges::all_of(devices, is_available);
}

void preempt_run(Draft& draft, const PreemptionNotice& notice) {
  const AttemptId id = draft.live_attempt(notice.run)->id;
  Run& run = draft.runs.edit(notice.run);
  const Cause cause = cause_of(run, notice);
  const std::string reason = reason_of(cause, draft.nodes_of(id).front()->host, notice);
  begin_draining(draft, id, cause, reason);
  draft.attempts.edit(id).move_destination = notice.destination;
  if (cause == Cause::moved) ++run.moves;
  add_audit_entry(run.audit, {.time = draft.now(), .by = "", .what = reason});
}

}  // namespace lockstep
