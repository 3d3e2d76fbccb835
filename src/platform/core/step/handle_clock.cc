// The wall clock was set, or may have been.
//
// Rows hold moments of the wall clock, and what the controller counts (time limits, silence,
// pauses, the turn in the queue) are differences between such moments and now. So when the clock
// was set by some time, the moments of all runs that have not ended move by as much, and every
// difference stays what it was. Moments that people named stay: "not before 12:00" means 12:00. So
// does the history of runs that have ended.
//
// After another boot it cannot be told by how much the clock was set. A moment must not lie in the
// future then, or what counts from it would wait until that has come.
#include <algorithm>

#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {
namespace {

// Calls move(moment) for each moment of the run that something is counted from, but the end of its
// pause.
template <class Move>
void move_moments(Draft& draft, Run& run, const Move& move) {
  const auto move_if = [&](std::optional<Time>& moment) {
    if (moment) move(*moment);
  };
  move(run.queued);
  move_if(run.started);
  const AttemptId id{run.id, run.epoch};
  if (!draft.attempts.find(id)) return;
  Attempt& attempt = draft.attempts.edit(id);
  move(attempt.created);
  for (auto* moment : {&attempt.started, &attempt.draining, &attempt.ended, &attempt.saved})
    move_if(*moment);
  for (const Node* found : draft.nodes_of(id)) {
    Node& node = draft.nodes.edit(found->id);
    move(node.last_heard);
    move_if(node.killed);
    for (Rank& rank : node.ranks) {
      move_if(rank.ended);
      move_if(rank.stalled_since);
      move_if(rank.activity_since);
    }
  }
}

template <class Move>
void move_orphans(Draft& draft, const Move& move) {
  for (const auto& [name, seen] : draft.orphans.all()) {
    Orphan& orphan = draft.orphans.edit(name);
    move(orphan.ends);
    for (auto* moment : {&orphan.stopping, &orphan.killed})
      if (*moment) move(**moment);
  }
}

bool is_of_back_off(const Run& run) {
  return run.not_before && run.not_before != run.spec.not_before;
}

void move_by(Draft& draft, Duration by) {
  const auto move = [&](Time& moment) { moment += by; };
  for (const RunId& id : draft.open_runs()) {
    Run& run = draft.runs.edit(id);
    move_moments(draft, run, move);
    if (is_of_back_off(run)) move(*run.not_before);
  }
  move_orphans(draft, move);
  for (const auto& [id, row] : draft.hosts.all()) {
    if (row.losses.empty()) continue;
    for (HostLoss& loss : draft.hosts.edit(id).losses) move(loss.time);
  }
}

void end_future(Draft& draft) {
  const auto move = [&](Time& moment) { moment = std::min(moment, draft.now()); };
  for (const RunId& id : draft.open_runs()) {
    Run& run = draft.runs.edit(id);
    move_moments(draft, run, move);
    if (is_of_back_off(run))
      run.not_before = std::min(*run.not_before, draft.now() + kBackOffLimit);
  }
  move_orphans(draft, move);
}

}  // namespace

Result<void> handle(Draft& draft, const ClockRead& event) {
  if (const auto by = set_by(draft.clock, event.clock))
    move_by(draft, *by);
  else
    end_future(draft);
  draft.clock = event.clock;
  return {};
}

}  // namespace lockstep
