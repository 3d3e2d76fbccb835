#include "platform/core/step/ending/orphans.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {
namespace {

// An orphan calls every 5 s; after that its ranks have the grace period.
Duration stop_limit(const Draft& draft, const model::Orphan& orphan) {
  return std::chrono::seconds(5) + model::orphan_grace_period(orphan, draft.settings()) +
         kStopMargin;
}

// Marks known orphans that the engine no longer lists.
void mark_missing_terminated(Draft& draft, const std::vector<model::Orphan>& seen) {
  for (const auto& [name, orphan] : draft.orphans.all()) {
    const bool is_there = std::ranges::find(seen, name, &model::Orphan::id) != seen.end();
    if (!is_there) draft.orphans.edit(name).terminated = true;
  }
}

// The host of a node may answer only after the operator has asked to stop the others.
bool is_being_stopped(const Draft& draft, const model::AttemptName& attempt) {
  return std::ranges::any_of(draft.orphans_of(attempt.id.run), [&](const model::Orphan* orphan) {
    return orphan->id.attempt() == attempt && orphan->stop_requested_at;
  });
}

// Stop requests by operators and reports of agents are kept.
void merge_orphan(Draft& draft, const model::Orphan& seen) {
  const model::Orphan* known = draft.orphans.find(seen.id);
  if (!known) {
    const bool is_to_stop = is_being_stopped(draft, seen.id.attempt());
    model::Orphan& added = draft.orphans.add(seen);
    if (is_to_stop) added.stop_requested_at = draft.now();
  } else if (known->has_agent != seen.has_agent || known->attempt_record != seen.attempt_record ||
             known->devices != seen.devices || known->engine != seen.engine) {
    model::Orphan& orphan = draft.orphans.edit(seen.id);
    orphan.has_agent = seen.has_agent;
    orphan.attempt_record = seen.attempt_record;
    orphan.devices = seen.devices;
    orphan.engine = seen.engine;
    orphan.expected_end = seen.expected_end;
  }
}

// Runs of the same name wait for the orphans, or no longer.
void update_same_name_runs(Draft& draft) {
  std::set<model::RunId> names;
  for (const auto& [name, orphan] : draft.orphans.changed()) names.insert(name.id.attempt.run);
  for (const model::RunId& id : names)
    if (const model::Run* run = draft.runs.find(id); run && run->state == model::RunState::queued)
      set_wait_reason(draft, draft.runs.edit(id));
}

Result<std::vector<const model::Orphan*>> require_orphans(const Draft& draft,
                                                          const model::RunId& run) {
  auto found = draft.orphans_of(run);
  if (!found.empty()) return found;
  return Error{Code::not_found,
               format("no run {} of another store is active here; `lockstep orphan ls` lists them",
                      text(run))};
}

Error cannot_adopt(const model::RunId& run, const std::string& why) {
  return {Code::invalid, format("{} cannot be adopted: {}; `lockstep orphan stop {}` ends it",
                                text(run), why, text(run))};
}

// The store may have no other run of that name, and no attempt as new as this one.
Result<void> check_same_name_run(const Draft& draft, const model::Orphan& orphan) {
  const model::AttemptId& attempt = orphan.id.id.attempt;
  const model::Run* run = draft.runs.find(attempt.run);
  if (!run) return {};
  if (run->generation != orphan.attempt_record->run_generation)
    return cannot_adopt(run->id, "this store has another run of that name");
  if (const model::Attempt* live = draft.live_attempt(run->id))
    return cannot_adopt(run->id, format("its attempt {} is active, too", live->id.epoch));
  if (run->epoch >= attempt.epoch)
    return cannot_adopt(run->id,
                        format("this store has made attempt {} of it already", run->epoch));
  return {};
}

bool overlaps(const std::vector<model::HostDevices>& placement, const std::string& host,
              const std::vector<int>& devices) {
  return std::ranges::any_of(placement, [&](const model::HostDevices& host_devices) {
    return host_devices.host == host && !host.empty() &&
           std::ranges::find_first_of(host_devices.devices, devices) != host_devices.devices.end();
  });
}

// True if the attempt holds one of these devices, or one is reserved for the next attempt.
bool uses(const Draft& draft, const model::Attempt& attempt,
          const std::vector<model::HostDevices>& placement) {
  const auto is_reserved = [&](const model::HostDevices& reserved) {
    return overlaps(placement, reserved.host, reserved.devices);
  };
  const auto is_held = [&](const model::Node* node) {
    return overlaps(placement, node->host, node->devices);
  };
  return std::ranges::any_of(attempt.move_destination, is_reserved) ||
         (attempt.is_placed && std::ranges::any_of(draft.nodes_of(attempt.id), is_held));
}

// The run, of this store or not, that holds devices of the attempt. An ended node of the attempt
// may have given its devices up.
std::optional<std::string> find_conflicting_run(const Draft& draft, const model::RunId& own,
                                                const std::vector<model::HostDevices>& placement) {
  for (const model::RunId& run : draft.open_runs())
    if (const model::Attempt* attempt = draft.live_attempt(run);
        attempt && uses(draft, *attempt, placement))
      return text(run);
  for (const auto& [name, orphan] : draft.orphans.all())
    if (!orphan.terminated && name.id.attempt.run != own &&
        overlaps(placement, orphan.devices.host, orphan.devices.devices))
      return "orphan " + text(name.id.attempt.run);
  return std::nullopt;
}

// No list can tell of a node on a host that is not of this cluster.
Result<void> check_hosts_joined(const Draft& draft, const model::Orphan& orphan) {
  if (!draft.hosts_make_map()) return {};
  for (const model::HostDevices& slice : orphan.attempt_record->devices)
    if (!slice.host.empty() && !map::find_host(draft.map(), slice.host))
      return cannot_adopt(orphan.id.id.attempt.run,
                          format("host {}, on which it has a node, has not joined", slice.host));
  return {};
}

// Processes that no list has had yet may hold its devices there.
Result<void> check_hosts_answer(const Draft& draft, const model::Orphan& orphan) {
  for (const model::HostDevices& slice : orphan.attempt_record->devices) {
    const model::HostRow* row = draft.hosts.find(slice.host);
    if (row && !row->unavailable.empty())
      return cannot_adopt(orphan.id.id.attempt.run,
                          format("host {}, on which it has a node, cannot be asked now ({}); try "
                                 "again when `lockstep host ls` shows it as available",
                                 slice.host, row->unavailable));
  }
  return {};
}

// The record names devices by their index when it started.
Result<void> check_same_devices(const model::Orphan& orphan) {
  const auto& placed = orphan.attempt_record->devices;
  const auto index = static_cast<std::size_t>(orphan.id.id.index);
  if (index < placed.size() && placed[index] == orphan.devices) return {};
  return cannot_adopt(
      orphan.id.id.attempt.run,
      format("the devices of host {} have changed since it started", orphan.devices.host));
}

Result<void> check_adoptable(const Draft& draft, const std::vector<const model::Orphan*>& orphans) {
  const model::Orphan& first = *orphans.front();
  const model::RunId& run = first.id.id.attempt.run;
  for (const model::Orphan* orphan : orphans) {
    if (orphan->id.attempt() != first.id.attempt())
      return cannot_adopt(run, "several attempts of it go on here");
    if (!orphan->attempt_record)
      return cannot_adopt(run, "its launch file, which tells what it is, cannot be read");
    if (orphan->stop_requested_at) return cannot_adopt(run, "it is being stopped");
    TRY(check_hosts_joined(draft, *orphan));
    TRY(check_hosts_answer(draft, *orphan));
    TRY(check_same_devices(*orphan));
  }
  TRY(check_same_name_run(draft, first));
  if (const auto conflicting_run = find_conflicting_run(draft, run, first.attempt_record->devices))
    return cannot_adopt(run, format("{} holds devices that it uses", *conflicting_run));
  return {};
}

model::Run& find_or_add_run(Draft& draft, const model::RunId& id,
                            const model::AttemptRecord& record) {
  if (draft.runs.find(id)) return draft.runs.edit(id);
  model::Run run;
  run.id = id;
  run.generation = record.run_generation;
  run.spec = record.spec;
  run.origin = record.origin;
  run.submitted = record.submitted;
  return draft.runs.add(std::move(run));
}

// Without hosts, that of the list that has it. Only this one lists and ends it.
std::string engine_of_adopted(const Draft& draft, const model::Orphan& orphan) {
  const auto& devices = orphan.attempt_record->devices;
  if (!devices.empty() && !devices.front().host.empty())
    return draft.engine_of(devices.front().host);
  return orphan.engine.empty() ? draft.engine_without_host() : orphan.engine;
}

// Its nodes count as launched: the daemon detects missing ones as for any attempt.
void add_attempt(Draft& draft, const model::Orphan& orphan) {
  const model::AttemptName name = orphan.id.attempt();
  const model::AttemptRecord& record = *orphan.attempt_record;
  for (const model::HostDevices& host_devices : record.devices) {
    model::Node node;
    node.id = {name.id, static_cast<int>(&host_devices - record.devices.data())};
    node.host = host_devices.host;
    node.devices = host_devices.devices;
    node.last_heartbeat = draft.now();
    draft.nodes.add(std::move(node));
  }
  model::Attempt attempt;
  attempt.id = name.id;
  attempt.generation = name.generation;
  attempt.is_placed = record.devices.empty() || !record.devices.front().host.empty();
  attempt.engine = engine_of_adopted(draft, orphan);
  attempt.created = draft.now();  // its agents have as much time to call as those of a new attempt
  draft.attempts.add(std::move(attempt));
}

}  // namespace

Result<void> record_orphan_report(Draft& draft, const model::NodeReport& report) {
  const model::NodeName name{report.generation, report.node};
  const bool ended =
      !report.ranks.empty() && std::ranges::all_of(report.ranks, [](const model::Rank& r) {
        return r.state != model::RankState::running;
      });
  if (draft.orphans.find(name)->ended != ended) draft.orphans.edit(name).ended = ended;
  return {};
}

void check_orphans(Draft& draft) {
  for (const auto& [name, orphan] : draft.orphans.all()) {
    if (!orphan.stop_requested_at || orphan.terminated) continue;
    const bool had_time = draft.now() - *orphan.stop_requested_at >= stop_limit(draft, orphan);
    if (!had_time && !orphan.ended && orphan.has_agent) continue;
    if (orphan.kill_requested_at &&
        draft.now() - *orphan.kill_requested_at < draft.settings().kill_interval)
      continue;
    draft.orphans.edit(name).kill_requested_at = draft.now();
    draft.add_effect(model::KillOrphan{name});
  }
}

Result<void> handle_event(Draft& draft, const model::OrphansListed& event) {
  mark_missing_terminated(draft, event.orphans);
  for (const model::Orphan& orphan : event.orphans) merge_orphan(draft, orphan);
  update_same_name_runs(draft);
  return {};
}

// A second stop is no error.
Result<void> handle_event(Draft& draft, const model::StopOrphan& event) {
  for (const model::Orphan* orphan : TRY(require_orphans(draft, event.run)))
    if (!orphan->stop_requested_at) draft.orphans.edit(orphan->id).stop_requested_at = draft.now();
  return {};
}

Result<void> handle_event(Draft& draft, const model::AdoptOrphan& event) {
  const auto orphans = TRY(require_orphans(draft, event.run));
  TRY(check_adoptable(draft, orphans));
  const model::AttemptName name = orphans.front()->id.attempt();
  const model::AttemptRecord record = *orphans.front()->attempt_record;
  model::Run& run = find_or_add_run(draft, event.run, record);
  run.state = model::RunState::starting;
  run.epoch = name.id.epoch;
  run.reason = "adopted from another store";
  run.queued = record.queued;
  run.time_used = record.time_used;
  // This store may lack an extension that the agents have.
  run.extended += std::max(Duration(0), model::time_left(record) - model::time_left(run));
  run.user_exits = record.user_exits;
  run.losses = record.losses;
  run.moves = record.moves;
  run.fair_share_used = record.fair_share_used;
  run.priority = record.priority;
  run.ended.reset();
  run.not_before.reset();
  run.held.reset();
  run.awaits_dependencies = run.stop_requested = false;
  model::add_audit_entry(run.audit,
                         {.time = draft.now(), .by = one_line(event.by), .what = run.reason});
  add_attempt(draft, *orphans.front());
  for (const model::Orphan* orphan : orphans) draft.orphans.edit(orphan->id).terminated = true;
  return {};
}

}  // namespace lockstep::step
