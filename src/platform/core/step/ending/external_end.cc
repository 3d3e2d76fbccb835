#include "platform/core/step/ending/external_end.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/diagnosis.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/ending/silence.h"

namespace lockstep::step {
namespace {

using Nodes = std::vector<const model::Node*>;

struct ExternalEnd {
  model::RunState state = model::RunState::failed;
  model::Cause cause = model::Cause::none;
  std::string reason;
};

bool has_failed_rank(const model::Node* node) {
  return std::ranges::any_of(node->ranks, model::ended_badly);
}

// An agent that gets a signal after the failure of a rank does not report the signal.
bool fails_by_itself(const model::Node* node) {
  return has_failed_rank(node) && !stopped_by_signal(*node);
}

bool is_lost(const model::Node* node) { return node->state == model::NodeState::lost; }

ExternalEnd failure_of(const model::Attempt& attempt, const Nodes& nodes) {
  const auto diagnosis = diagnose_attempt(attempt, nodes, Duration(0));
  std::string reason = diagnosis ? diagnosis->reason : "a rank failed";
  const auto with_error = std::ranges::find_if(nodes, [](const model::Node* node) {
    return has_failed_rank(node) && !node->message.empty();
  });
  if (with_error != nodes.end()) reason += "; " + (*with_error)->message;
  return {.cause = diagnosis ? diagnosis->cause : model::Cause::user_exit,
          .reason = std::move(reason)};
}

// Ranks that never report are unknown.
std::string external_success_reason(const model::RunSpec& spec, const Nodes& nodes) {
  std::size_t ranks = 0;
  for (const model::Node* node : nodes) ranks += node->ranks.size();
  if (std::cmp_greater_equal(ranks, model::rank_count(spec)))
    return ranks == 1 ? "its rank exited with code 0"
                      : format("all {} ranks exited with code 0", ranks);
  return format("exit code 0 of all {} ranks that have reported, of {}", ranks,
                model::rank_count(spec));
}

ExternalEnd end_of_run(const model::Run& run, const model::Attempt& attempt, const Nodes& nodes) {
  if (std::ranges::any_of(nodes, fails_by_itself)) return failure_of(attempt, nodes);
  const auto signalled =
      std::ranges::find_if(nodes, [](const model::Node* node) { return stopped_by_signal(*node); });
  if (signalled != nodes.end())
    return {.state = model::RunState::cancelled,
            .cause = model::Cause::node_stopped,
            .reason = format("its launcher, or {}, has ended it by a signal",
                             describe_location(**signalled))};
  const auto lost = std::ranges::find_if(nodes, is_lost);
  if (lost != nodes.end()) return {.cause = model::Cause::node_lost, .reason = (*lost)->message};
  return {.state = model::RunState::succeeded,
          .cause = model::Cause::ok,
          .reason = external_success_reason(run.spec, nodes)};
}

void lose_silent_nodes(Draft& draft, const model::AttemptId& id, const model::Tick& tick) {
  const Duration limit = draft.settings().lost_after;
  for (const model::Node* known : draft.nodes_of(id)) {
    if (model::ranks_are_final(*known) || !is_silent_for(draft, *known, tick, limit)) continue;
    model::Node& node = draft.nodes.edit(known->id);
    node.message =
        format("the agent of {} was silent for {}", describe_location(node), short_text(limit));
    node.state = model::NodeState::lost;
    node.unreachable_since.reset();
    for (model::Rank& rank : node.ranks)
      if (rank.state == model::RankState::running) rank.state = model::RankState::lost;
  }
}

// By the daemon's clock. An agent that was away calls after the daemon listens again.
Time last_change(const model::Attempt& attempt, const Nodes& nodes, const model::Tick& tick) {
  Time last = std::max(attempt.admitted.value_or(attempt.created), tick.listening_since);
  for (const model::Node* node : nodes)
    for (const model::Rank& rank : node->ranks) last = std::max(last, rank.ended.value_or(last));
  return last;
}

}  // namespace

void check_external_run(Draft& draft, const model::AttemptId& id, const model::Tick& tick) {
  lose_silent_nodes(draft, id, tick);
  const auto nodes = draft.nodes_of(id);
  const bool all_final = std::ranges::all_of(
      nodes, [](const model::Node* node) { return model::ranks_are_final(*node); });
  if (!all_final ||
      draft.now() - last_change(*draft.attempts.find(id), nodes, tick) < kLateRankLimit)
    return;
  model::Run& run = draft.runs.edit(id.run);
  model::Attempt& attempt = draft.attempts.edit(id);
  ExternalEnd end = end_of_run(run, attempt, nodes);
  attempt.state = model::AttemptState::ended;
  attempt.cause = end.cause;
  attempt.reason = end.reason;
  attempt.draining = draft.now();
  attempt.ended = draft.now();
  run.time_used = model::running_time(attempt, nodes, draft.now());
  for (const model::Node* node : nodes)
    if (!is_lost(node)) draft.nodes.edit(node->id).state = model::NodeState::released;
  end_run(run, end.state, std::move(end.reason), draft.now());
}

}  // namespace lockstep::step
