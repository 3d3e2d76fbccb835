#include "platform/core/step/ending.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/format.h"
#include "platform/core/model/command.h"

namespace lockstep {
namespace {

constexpr Duration kBackOffFirst = std::chrono::seconds(2);
constexpr Duration kBackOffLimit = std::chrono::seconds(60);

// None before the first retry, then 2 s, 4 s, ... up to a minute.
Duration back_off(int failures) {
  if (failures <= 1) return Duration(0);
  return std::min(kBackOffLimit, kBackOffFirst * (1 << std::min(failures - 2, 10)));
}

std::string signal_name(int number) {
  const char* name = number > 0 && number < NSIG ? ::sigabbrev_np(number) : nullptr;
  return name ? format("signal {} (SIG{})", number, name) : format("signal {}", number);
}

std::string describe(const Node& node, const Rank& rank) {
  const auto how = rank.state == RankState::killed ? "was killed by " + signal_name(rank.code)
                                                   : format("exited with code {}", rank.code);
  return format("rank {} on host {} {}", rank.rank, node.host, how);
}

struct BadEnd {
  const Node* node = nullptr;
  const Rank* rank = nullptr;
};

// The one that happened first, by the clocks of the agents; at equal times the lowest rank.
BadEnd first_bad_end(const std::vector<const Node*>& nodes) {
  BadEnd first;
  for (const Node* node : nodes)
    for (const Rank& rank : node->ranks)
      if (ended_badly(rank) && (!first.rank || rank.ended < first.rank->ended))
        first = {node, &rank};
  return first;
}

bool rank_ended_it(Cause cause) { return cause == Cause::user_exit || cause == Cause::rank_lost; }

void set_cause(Draft& draft, const AttemptId& id, Cause cause, std::string reason) {
  draft.runs.edit(id.run).reason = reason;
  Attempt& attempt = draft.attempts.edit(id);
  attempt.cause = cause;
  attempt.reason = std::move(reason);
}

std::string what_follows(const Run& run, Duration pause) {
  const auto next = run.epoch + 1;
  const auto when = pause > Duration(0)
                        ? format("attempt {} follows after {}", next, short_text(pause))
                    : run.started ? format("attempt {}", next)
                                  : format("attempt {} follows", next);
  if (!run.started) return when;
  return when + (pause > Duration(0) ? " and goes on from the last checkpoint"
                                     : " goes on from the last checkpoint");
}

// Queues the run again, or ends it when what it may use up is used up.
void retry_or_fail(Run& run, const Attempt& attempt, Time now) {
  const bool own_exit = attempt.cause == Cause::user_exit;
  int& used = own_exit ? run.user_exits : run.losses;
  const int allowed = own_exit ? run.spec.retries : run.spec.rank_loss_retries;
  if (run.charged >= run.spec.timeout)
    return end_run(
        run, RunState::timed_out,
        format("{}; its time-out of {} is used up", attempt.reason, text(run.spec.timeout)), now);
  if (used >= allowed)
    return end_run(run, RunState::failed,
                   allowed == 0
                       ? attempt.reason
                       : format("{}; {} of {} retries are used up", attempt.reason, used, allowed),
                   now);
  ++used;
  const Duration pause = back_off(used);
  run.state = RunState::queued;
  run.not_before = now + pause;
  run.reason = format("{}; {}", attempt.reason, what_follows(run, pause));
}

void settle(Run& run, const Attempt& attempt, Time now) {
  if (attempt.started && attempt.draining)
    run.charged += std::max(Duration(0), *attempt.draining - *attempt.started);
  if (attempt.cause == Cause::ok) return end_run(run, RunState::succeeded, attempt.reason, now);
  if (run.stop_requested || attempt.cause == Cause::cancelled)
    return end_run(run, RunState::cancelled, attempt.reason, now);
  if (attempt.cause == Cause::timeout)
    return end_run(run, RunState::timed_out, attempt.reason, now);
  retry_or_fail(run, attempt, now);
}

}  // namespace

void begin_draining(Draft& draft, const AttemptId& id, Cause cause, std::string reason) {
  if (draft.attempts.find(id)->state >= AttemptState::draining) return;
  set_cause(draft, id, cause, std::move(reason));
  Attempt& attempt = draft.attempts.edit(id);
  attempt.state = AttemptState::draining;
  attempt.draining = draft.now();
}

void judge_ranks(Draft& draft, const AttemptId& id) {
  const auto [node, rank] = first_bad_end(draft.nodes_of(id));
  if (!rank) return;
  const Cause cause = rank->state == RankState::killed ? Cause::rank_lost : Cause::user_exit;
  const Attempt& attempt = *draft.attempts.find(id);
  if (attempt.state < AttemptState::draining)
    begin_draining(draft, id, cause, describe(*node, *rank));
  else if (rank_ended_it(attempt.cause) && attempt.reason != describe(*node, *rank))
    set_cause(draft, id, cause, describe(*node, *rank));
}

void lose_node(Draft& draft, const NodeId& id, Cause cause, std::string reason) {
  const Attempt attempt = *draft.attempts.find(id.attempt);
  Node& node = draft.nodes.edit(id);
  node.state = NodeState::lost;
  if (node.message.empty()) node.message = reason;
  if (attempt.state < AttemptState::draining)
    begin_draining(draft, id.attempt, cause, std::move(reason));
  else if (rank_ended_it(attempt.cause) && node.last_heard <= *attempt.draining)
    set_cause(draft, id.attempt, cause, std::move(reason));
}

void kill_node(Draft& draft, const NodeId& id) {
  Node& node = draft.nodes.edit(id);
  if (node.killed && draft.now() - *node.killed < kKillInterval) return;
  node.killed = draft.now();
  draft.act(KillNode{id});
}

void release_node(Draft& draft, const NodeId& id) {
  draft.nodes.edit(id).state = NodeState::released;
  const auto nodes = draft.nodes_of(id.attempt);
  const bool all = std::ranges::all_of(
      nodes, [](const Node* node) { return node->state == NodeState::released; });
  if (!all) return;
  Attempt& attempt = draft.attempts.edit(id.attempt);
  attempt.state = AttemptState::ended;
  attempt.ended = draft.now();
  settle(draft.runs.edit(id.attempt.run), attempt, draft.now());
}

void end_run(Run& run, RunState state, std::string reason, Time now) {
  run.state = state;
  run.reason = std::move(reason);
  run.ended = now;
  run.not_before.reset();
}

std::string short_text(Duration duration) {
  if (duration >= std::chrono::minutes(1)) return text(duration);
  return format("{}s", std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

std::string place_of(const Node& node) {
  return format("node {} on host {}", node.id.index, node.host);
}

std::string one_line(std::string_view words) {
  constexpr std::size_t kLimit = 300;
  std::string line(words.substr(0, kLimit));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  // A character that the cut went through is dropped whole.
  const auto continues = [&](std::size_t i) {
    return i > 0 && i < words.size() && (static_cast<unsigned char>(words[i]) & 0xc0) == 0x80;
  };
  std::size_t cut = line.size();
  while (continues(cut)) --cut;
  line.resize(cut);
  return line;
}

}  // namespace lockstep
