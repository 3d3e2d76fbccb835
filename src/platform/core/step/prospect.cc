#include "platform/core/step/prospect.h"

#include <algorithm>

#include "platform/core/step/step.h"

namespace lockstep {
namespace {

// The new run is the one row whose version is its first.
const Run* new_run(const std::vector<Change>& changes) {
  for (const Change& change : changes)
    if (const Run* run = std::get_if<Run>(&change); run && run->version == 1) return run;
  return nullptr;
}

void read_places(const std::vector<Change>& changes, const RunId& id, Prospect& prospect) {
  for (const Change& change : changes)
    if (const Node* node = std::get_if<Node>(&change); node && node->id.attempt.run == id)
      prospect.slices.push_back({node->host, node->devices});
}

void read_displaced(const State& state, const std::vector<Change>& changes, Prospect& prospect) {
  for (const Change& change : changes) {
    const Attempt* attempt = std::get_if<Attempt>(&change);
    if (!attempt || attempt->state != AttemptState::draining || !makes_room(attempt->cause))
      continue;
    const auto nodes = nodes_of(state, attempt->id);
    prospect.displaced.push_back({attempt->id.run, attempt->cause,
                                  nodes.empty() ? "" : nodes.front()->host, attempt->moves_to});
  }
}

}  // namespace

Result<Prospect> prospect_of(const State& state, const SubmitRun& wish, Time now) {
  Queue queue;
  const Outcome outcome = TRY(step(queue, state, wish, now));
  const Run* run = new_run(outcome.changes);
  LS_CHECK(run != nullptr);
  Prospect prospect;
  prospect.reason = run->reason;
  read_places(outcome.changes, run->id, prospect);
  read_displaced(state, outcome.changes, prospect);
  if (!prospect.slices.empty()) {
    prospect.reason.clear();
    prospect.starts = {now, now};
    return prospect;
  }
  const auto& waiting = queue.waiting();
  const auto place = std::ranges::find(waiting, run->id, &WaitingRun::run);
  prospect.ahead = static_cast<std::size_t>(place - waiting.begin());
  if (place == waiting.end()) {  // it would wait for something else than devices
    prospect.starts.expected = run->not_before;
    return prospect;
  }
  prospect.blocker = place->blocker;
  prospect.starts = queue.start_times()[prospect.ahead];
  return prospect;
}

}  // namespace lockstep
