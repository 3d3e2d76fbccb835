// What the engine says, and what time alone brings about: every wait of the platform ends here.
#include <algorithm>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"
#include "platform/core/step/orphans.h"
#include "platform/core/step/standing.h"
#include "platform/core/step/suspicion.h"
#include "platform/core/step/words.h"

namespace lockstep {
namespace {

// The node, if it still counts: of a live attempt, and not yet released.
const Node* current(const Draft& draft, const NodeId& id) {
  const Attempt* attempt = draft.live_attempt(id.attempt.run);
  const Node* node = draft.nodes.find(id);
  if (!node || !attempt || attempt->id != id.attempt) return nullptr;
  return node->state == NodeState::released ? nullptr : node;
}

bool drains(const Draft& draft, const AttemptId& id) {
  return draft.attempts.find(id)->state == AttemptState::draining;
}

void lose_and_kill(Draft& draft, const NodeId& id, Cause cause, std::string reason,
                   Suspicion suspicion = Suspicion::of_host) {
  lose_node(draft, id, cause, std::move(reason), suspicion);
  kill_node(draft, id);
}

// The agent ended; unless by our doing, as one did that we killed and that had been heard, obeying
// too slowly, since draining began.
void lose_agent(Draft& draft, const Node& node) {
  const Attempt& attempt = *draft.attempts.find(node.id.attempt);
  if (accounted(node) || (node.killed && attempt.draining && node.last_heard > *attempt.draining))
    return;
  lose_node(draft, node.id, Cause::node_lost,
            format("the agent of {} ended and gave no reason", place_of(node)));
}

// While the daemon was away nobody could be heard.
Duration silence_of(const Draft& draft, const Node& node, Time listening_since) {
  return draft.now() - std::max(node.last_heard, listening_since);
}

void check_silence(Draft& draft, const Node& node, Time listening_since) {
  if (accounted(node)) return;
  const Duration silent = silence_of(draft, node, listening_since);
  if (node.state == NodeState::allocated) {
    if (silent >= kFirstCallLimit)
      lose_and_kill(draft, node.id, Cause::launch_failed,
                    format("the agent of {} did not call within {}; its agent.log may say why",
                           place_of(node), short_text(kFirstCallLimit)));
  } else if (silent >= kSilenceLimit) {
    lose_and_kill(
        draft, node.id, Cause::node_lost,
        format("the agent of {} was silent for {}", place_of(node), short_text(kSilenceLimit)));
  }
}

// A daemon that was away told nobody to start: that time does not count.
void check_ready(Draft& draft, const Attempt& attempt, Time listening_since) {
  const Duration waited = draft.now() - std::max(attempt.created, listening_since);
  if (attempt.state >= AttemptState::running || waited < kReadyLimit) return;
  for (const Node* node : draft.nodes_of(attempt.id))
    if (node->state != NodeState::running)
      return begin_draining(draft, attempt.id, Cause::launch_failed, did_not_start(*node));
}

bool any_was_heard(const Draft& draft, const Attempt& attempt, Time since) {
  return std::ranges::any_of(draft.nodes_of(attempt.id),
                             [&](const Node* node) { return node->last_heard >= since; });
}

// Agents mind the running time themselves. After a break their word comes first: the ranks may have
// ended in time while nobody could be told, or with the host, if no agent is heard again.
void check_timeout(Draft& draft, const Attempt& attempt, Time listening_since) {
  if (attempt.state != AttemptState::running) return;
  if (draft.now() - listening_since < kHearAgain) return;
  if (!any_was_heard(draft, attempt, listening_since)) return;
  const Run& run = *draft.runs.find(attempt.id.run);
  if (run.charged + (draft.now() - *attempt.started) >= run.spec.timeout)
    begin_draining(draft, attempt.id, Cause::timeout, time_out_of(run));
}

// A node that is told to stop has the grace period; one whose ranks have ended may take longer, as
// long as it is heard, to send its last logs.
bool overstays(const Draft& draft, const Attempt& attempt, const Node& node, Time listening_since) {
  if (node.state == NodeState::lost) return true;
  const Duration told = draft.now() - std::max(*attempt.draining, listening_since);
  if (told < kGrace + kStopMargin) return false;
  if (!accounted(node) || told >= kShipLimit) return true;
  return silence_of(draft, node, listening_since) >= kSilenceLimit;
}

std::string held_by(const Attempt& attempt, const Node& node, std::size_t more) {
  const auto others = more == 0 ? "" : format(" and {} more", more);
  return format("{}; its devices stay held until the last processes of {}{} have ended",
                attempt.reason, place_of(node), others);
}

void check_draining(Draft& draft, const Attempt& attempt, Time listening_since) {
  std::vector<const Node*> stuck;
  for (const Node* node : draft.nodes_of(attempt.id))
    if (node->state != NodeState::released && overstays(draft, attempt, *node, listening_since))
      stuck.push_back(node);
  for (const Node* node : stuck) kill_node(draft, node->id);
  if (!stuck.empty() && draft.now() - *attempt.draining >= kStuckLimit)
    draft.runs.edit(attempt.id.run).reason = held_by(attempt, *stuck.front(), stuck.size() - 1);
}

void check_attempt(Draft& draft, const AttemptId& id, Time listening_since) {
  for (const Node* node : draft.nodes_of(id)) check_silence(draft, *node, listening_since);
  check_ready(draft, *draft.attempts.find(id), listening_since);
  check_timeout(draft, *draft.attempts.find(id), listening_since);
  if (drains(draft, id)) check_draining(draft, *draft.attempts.find(id), listening_since);
}

}  // namespace

Result<void> handle(Draft& draft, const LaunchFailed& event) {
  const Node* node = current(draft, event.node);
  if (!node || node->state != NodeState::allocated) return {};
  lose_and_kill(draft, event.node, Cause::launch_failed,
                format("{} could not be started: {}", place_of(*node), one_line(event.message)),
                event.host_is_blameless ? Suspicion::none : Suspicion::of_host);
  return {};
}

Result<void> handle(Draft& draft, const NodeGone& event) {
  const Node* node = current(draft, event.node);
  if (!node) return {};
  const Attempt& attempt = *draft.attempts.find(event.node.attempt);
  if (node->state != NodeState::allocated)
    lose_agent(draft, *node);
  else if (attempt.state < AttemptState::draining)
    lose_node(draft, event.node, Cause::launch_failed,
              format("the agent of {} ended before it called; its agent.log may say why",
                     place_of(*node)));
  release_node(draft, event.node);
  return {};
}

// Its ranks died with it; what had set itself apart from them is left, and ends by force at once.
// One that was never heard may be about to begin.
Result<void> handle(Draft& draft, const AgentGone& event) {
  const Node* node = current(draft, event.node);
  if (!node || node->state == NodeState::allocated) return {};
  lose_agent(draft, *node);
  kill_node(draft, event.node);
  return {};
}

Result<void> handle(Draft& draft, const Tick& event) {
  forgive(draft);
  check_orphans(draft);
  for (const RunId& run : draft.open_runs()) {
    check_standing(draft, run);
    if (const Attempt* attempt = draft.live_attempt(run))
      check_attempt(draft, attempt->id, event.listening_since);
  }
  return {};
}

// When nodes were heard is kept: it says until when they ran, and tells one that died before its
// peers failed from one that died later. Ticks say that no node counts as silent since.
Result<void> handle(Draft&, const DaemonStarted&) { return {}; }

}  // namespace lockstep
