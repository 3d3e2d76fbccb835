#include "platform/core/step/orphans.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"
#include "platform/core/step/standing.h"
#include "platform/core/step/words.h"

namespace lockstep {
namespace {

// An orphan calls every 5 s; then its ranks have the grace period.
constexpr Duration kStopLimit = std::chrono::seconds(5) + kGrace + kStopMargin;

// All of them were seen before.
void drop_others(Draft& draft, const std::vector<Orphan>& seen) {
  for (const auto& [name, orphan] : draft.orphans.all()) {
    const bool is_there = std::ranges::find(seen, name, &Orphan::id) != seen.end();
    if (!is_there) draft.orphans.edit(name).gone = true;
  }
}

// What operators and agents said of one that was seen before is kept.
void take_up(Draft& draft, const Orphan& seen) {
  const Orphan* known = draft.orphans.find(seen.id);
  if (!known) {
    draft.orphans.add(seen);
  } else if (known->has_agent != seen.has_agent || known->made != seen.made ||
             known->slice != seen.slice) {
    Orphan& orphan = draft.orphans.edit(seen.id);
    orphan.has_agent = seen.has_agent;
    orphan.made = seen.made;
    orphan.slice = seen.slice;
    orphan.ends = seen.ends;
  }
}

// Runs of the same name wait, or wait no longer.
void tell_namesakes(Draft& draft) {
  std::set<RunId> names;
  for (const auto& [name, orphan] : draft.orphans.changed()) names.insert(name.id.attempt.run);
  for (const RunId& id : names)
    if (const Run* run = draft.runs.find(id); run && run->state == RunState::queued)
      tell_standing(draft, draft.runs.edit(id));
}

Result<std::vector<const Orphan*>> known_orphans(const Draft& draft, const RunId& run) {
  auto found = draft.orphans_of(run);
  if (!found.empty()) return found;
  return Error{Code::not_found,
               format("no run {} of another store goes on here; `lockstep orphan ls` lists them",
                      text(run))};
}

Error cannot_adopt(const RunId& run, const std::string& why) {
  return {Code::invalid, format("{} cannot be adopted: {}; `lockstep orphan stop {}` ends it",
                                text(run), why, text(run))};
}

// Nothing of the run is in this store, or what led up to the attempt.
Result<void> check_namesake(const Draft& draft, const Orphan& orphan) {
  const AttemptId& attempt = orphan.id.id.attempt;
  const Run* run = draft.runs.find(attempt.run);
  if (!run) return {};
  if (run->generation != orphan.made->run_generation)
    return cannot_adopt(run->id, "this store has another run of that name");
  if (const Attempt* live = draft.live_attempt(run->id))
    return cannot_adopt(run->id, format("its attempt {} goes on, too", live->id.epoch));
  if (run->epoch >= attempt.epoch)
    return cannot_adopt(run->id,
                        format("this store has made attempt {} of it already", run->epoch));
  return {};
}

bool overlaps(const std::vector<Slice>& slices, const std::string& host,
              const std::vector<int>& devices) {
  return std::ranges::any_of(slices, [&](const Slice& slice) {
    return slice.host == host &&
           std::ranges::find_first_of(slice.devices, devices) != slice.devices.end();
  });
}

// The other run, of this store or not, that holds devices of the attempt's. A node of the attempt
// that has ended may have given up its own.
std::optional<std::string> holder_among(const Draft& draft, const RunId& own,
                                        const std::vector<Slice>& slices) {
  for (const RunId& run : draft.open_runs())
    if (const Attempt* attempt = draft.live_attempt(run))
      for (const Node* node : draft.nodes_of(attempt->id))
        if (overlaps(slices, node->host, node->devices)) return text(run);
  for (const auto& [name, orphan] : draft.orphans.all())
    if (!orphan.gone && name.id.attempt.run != own &&
        overlaps(slices, orphan.slice.host, orphan.slice.devices))
      return "orphan " + text(name.id.attempt.run);
  return std::nullopt;
}

Result<void> check_adoptable(const Draft& draft, const std::vector<const Orphan*>& orphans) {
  const Orphan& first = *orphans.front();
  const RunId& run = first.id.id.attempt.run;
  for (const Orphan* orphan : orphans) {
    if (orphan->id.attempt() != first.id.attempt())
      return cannot_adopt(run, "several attempts of it go on here");
    if (!orphan->made)
      return cannot_adopt(run, "its launch file, which tells what it is, cannot be read");
    if (orphan->stopping) return cannot_adopt(run, "it is being stopped");
  }
  TRY(check_namesake(draft, first));
  if (const auto holder = holder_among(draft, run, first.made->slices))
    return cannot_adopt(run, format("{} holds devices that it uses", *holder));
  return {};
}

Run& run_of(Draft& draft, const RunId& id, const AttemptRecord& made) {
  if (draft.runs.find(id)) return draft.runs.edit(id);
  Run run;
  run.id = id;
  run.generation = made.run_generation;
  run.spec = made.spec;
  run.origin = made.origin;
  run.submitted = made.submitted;
  return draft.runs.add(std::move(run));
}

// Its nodes count as launched: those that are gone are found so like any other.
void add_attempt(Draft& draft, const AttemptName& name, const AttemptRecord& made) {
  for (const Slice& slice : made.slices) {
    Node node;
    node.id = {name.id, static_cast<int>(&slice - made.slices.data())};
    node.host = slice.host;
    node.devices = slice.devices;
    node.last_heard = draft.now();
    draft.nodes.add(std::move(node));
  }
  Attempt attempt;
  attempt.id = name.id;
  attempt.generation = name.generation;
  attempt.created = draft.now();  // its agents have as long to call as those of a new one
  draft.attempts.add(std::move(attempt));
}

}  // namespace

Result<void> note_orphan(Draft& draft, const NodeReport& report) {
  const NodeName name{report.generation, report.node};
  const bool ended = !report.ranks.empty() && std::ranges::all_of(report.ranks, [](const Rank& r) {
    return r.state != RankState::running;
  });
  if (draft.orphans.find(name)->ended != ended) draft.orphans.edit(name).ended = ended;
  return {};
}

void check_orphans(Draft& draft) {
  for (const auto& [name, orphan] : draft.orphans.all()) {
    if (!orphan.stopping || orphan.gone) continue;
    const bool had_time = draft.now() - *orphan.stopping >= kStopLimit;
    if (!had_time && !orphan.ended && orphan.has_agent) continue;
    if (orphan.killed && draft.now() - *orphan.killed < kKillInterval) continue;
    draft.orphans.edit(name).killed = draft.now();
    draft.act(KillOrphan{name});
  }
}

Result<void> handle(Draft& draft, const OrphansSeen& event) {
  drop_others(draft, event.orphans);
  for (const Orphan& orphan : event.orphans) take_up(draft, orphan);
  tell_namesakes(draft);
  return {};
}

// Twice is no mistake.
Result<void> handle(Draft& draft, const StopOrphan& event) {
  for (const Orphan* orphan : TRY(known_orphans(draft, event.run)))
    if (!orphan->stopping) draft.orphans.edit(orphan->id).stopping = draft.now();
  return {};
}

Result<void> handle(Draft& draft, const AdoptOrphan& event) {
  const auto orphans = TRY(known_orphans(draft, event.run));
  TRY(check_adoptable(draft, orphans));
  const AttemptName name = orphans.front()->id.attempt();
  const AttemptRecord made = *orphans.front()->made;
  Run& run = run_of(draft, event.run, made);
  run.state = RunState::starting;
  run.epoch = name.id.epoch;
  run.reason = "adopted from another store";
  run.queued = made.queued;
  run.charged = made.charged;
  run.user_exits = made.user_exits;
  run.losses = made.losses;
  run.moves = made.moves;
  run.share = made.share;
  run.priority = made.priority;
  run.ended.reset();
  run.not_before.reset();
  run.held.reset();
  run.awaits_others = run.stop_requested = false;
  add_entry(run.audit, {.time = draft.now(), .by = one_line(event.by), .what = run.reason});
  add_attempt(draft, name, made);
  for (const Orphan* orphan : orphans) draft.orphans.edit(orphan->id).gone = true;
  return {};
}

}  // namespace lockstep
