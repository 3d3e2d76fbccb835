#include "platform/core/step/placing.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending.h"

namespace lockstep {
namespace {

bool has_devices(const Host& host, const std::vector<int>& devices) {
  return std::ranges::all_of(devices, [&](int device) {
    return device >= 0 && std::cmp_less(device, device_count(host));
  });
}

Cause cause_of(const Run& run, const Leave& leave) {
  if (!leave.to.empty()) return Cause::moved;
  return run.spec.run_class == RunClass::preemptible ? Cause::evicted : Cause::paused;
}

// "moved from host a to make room for demo/7"
std::string reason_of(Cause cause, const std::string& host, const Leave& leave) {
  if (!leave.room_for) return format("moved off host {}, which is drained", host);
  const std::string other = text(*leave.room_for);
  if (cause == Cause::moved) return format("moved from host {} to make room for {}", host, other);
  return cause == Cause::paused ? format("paused to make room for {}", other)
                                : format("evicted to make room for {}", other);
}

}  // namespace

void start_attempt(Draft& draft, Placement placement) {
  Run& run = draft.runs.edit(placement.run);
  // Of a run that goes on, the reason stays to be seen: "rank 3 ... was killed ...; attempt 2 goes
  // on".
  const Attempt* before = draft.attempts.find({run.id, run.epoch});
  const bool resumed = before && before->ended && *before->ended < run.queued;
  run.reason = before ? format("{}; {}", resumed ? "resumed" : before->reason,
                               what_follows(draft, run, before->cause, {}))
                      : "";
  ++run.epoch;
  run.state = RunState::starting;
  Attempt attempt;
  attempt.id = {run.id, run.epoch};
  attempt.generation = draft.generation();
  attempt.created = draft.now();
  for (Slice& slice : placement.slices) {
    Node node;
    node.id = {attempt.id, static_cast<int>(&slice - placement.slices.data())};
    node.host = std::move(slice.host);
    node.devices = std::move(slice.devices);
    node.last_heard = draft.now();
    draft.act(LaunchNode{node.id});
    draft.nodes.add(std::move(node));
  }
  draft.attempts.add(std::move(attempt));
}

bool takes_runs(const Draft& draft, const std::vector<Slice>& slices) {
  const auto takes = [&](const Slice& slice) {
    const Host* host = find_host(draft.map(), slice.host);
    const HostRow* row = draft.hosts.find(slice.host);
    const bool open = !row || row->state < HostState::closed;
    return host && open && has_devices(*host, slice.devices);
  };
  return !slices.empty() && std::ranges::all_of(slices, takes);
}

void ask_to_leave(Draft& draft, const Leave& leave) {
  const AttemptId id = draft.live_attempt(leave.run)->id;
  Run& run = draft.runs.edit(leave.run);
  const Cause cause = cause_of(run, leave);
  const std::string reason = reason_of(cause, draft.nodes_of(id).front()->host, leave);
  begin_draining(draft, id, cause, reason);
  draft.attempts.edit(id).moves_to = leave.to;
  if (cause == Cause::moved) ++run.moves;
  add_entry(run.audit, {.time = draft.now(), .by = "", .what = reason});
}

}  // namespace lockstep
