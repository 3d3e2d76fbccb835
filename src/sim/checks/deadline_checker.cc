#include "sim/checks/deadline_checker.h"

#include <algorithm>

#include "sim/checks/widespread_silence.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// From docs/design/attempts.md.
constexpr Duration kSilence = seconds(30);              // of an agent, until it is unreachable
constexpr Duration kFirstCall = minutes(1);             // of one that never called
constexpr Duration kStopPatience = seconds(15);         // to `stop`, until force is used
constexpr Duration kLeftoverDetectionMax = seconds(2);  // at what an agent that died has left
constexpr Duration kReportAgainMax = seconds(15);       // all agents, before a time-out is decided
// Limit for the end of a stopped process: an agent may obey the stop and be suspended before it
// exits.
constexpr Duration kEnd = kStopPatience + kSilence + kKillInterval;
// An orphan that is to end: its agents call every 5 s.
constexpr Duration kOrphanEnd = seconds(5) + kStopPatience + kKillInterval;
// Ticks come once a second.
constexpr Duration kMargin = seconds(2);
// An engine that asks a cluster's controller learns of an end, and ends a node, so much later.
constexpr Duration kClusterLag = seconds(8);
constexpr Duration kCheckGapMax = seconds(3);  // between two checks: the daemon was away meanwhile

}  // namespace

void DeadlineChecker::check(bool well) {
  const Duration now = context_.timeline.now();
  const bool broke = !well || now - checked_ >= kCheckGapMax;
  checked_ = now;
  if (broke) well_ = now;
  const bool is_widespread = is_silence_widespread(durable_);
  if (is_widespread_ && !is_widespread) calm_ = now;
  is_widespread_ = is_widespread;
  for (const model::RunId& run : durable_.open)
    if (const model::Attempt* attempt = model::live_attempt(durable_, run))
      check_attempt(*attempt, durable_.runs.at(run));
  check_orphans();
}

void DeadlineChecker::check_orphans() const {
  for (const auto& [node, asked] : truth_.stopped_orphans())
    if (truth_.is_alive(node) && time_since(context_.clock.at(asked)) >= kOrphanEnd + margin())
      context_.report_violation(format("{} of another store is to end for {}, and has not",
                                       text(node), text(time_since(context_.clock.at(asked)))));
}

Duration DeadlineChecker::time_since(Time moment) const {
  return context_.clock.now() - std::max(moment, context_.clock.at(well_));
}

Duration DeadlineChecker::calm_time_since(Time moment) const {
  return is_widespread_ ? Duration(0) : time_since(std::max(moment, context_.clock.at(calm_)));
}

void DeadlineChecker::check_attempt(const model::Attempt& attempt, const model::Run& run) {
  for (const model::Node* node : model::nodes_of(durable_, attempt.id)) {
    if (node->state == model::NodeState::released) continue;
    check_silence(*node);
    check_kill(attempt, *node);
  }
  check_start(attempt);
  check_time_out(attempt, run);
  check_end(attempt);
}

// An agent cannot call while its node waits at its engine, nor before its host is known.
Time DeadlineChecker::begin_of(const model::Attempt& attempt) const {
  return std::max(attempt.created, attempt.admitted.value_or(attempt.created));
}

bool DeadlineChecker::waits_at_engine(const model::Node& node) const {
  return !node.pending_reason.empty() ||
         (node.host.empty() && !durable_.attempts.at(node.id.attempt).is_placed);
}

Duration DeadlineChecker::margin() const {
  return !durable_.placing_engine.empty() ? kMargin + kClusterLag : kMargin;
}

void DeadlineChecker::check_silence(const model::Node& node) {
  if (node.state == model::NodeState::lost || waits_at_engine(node) ||
      truth_.has_reported_all_ends(name_of(durable_, node.id)))
    return;
  const model::Attempt& attempt = durable_.attempts.at(node.id.attempt);
  const Time begin = begin_of(attempt);
  const Time sign =
      std::max(begin, truth_.last_report_time(name_of(durable_, node.id)).value_or(begin));
  const Duration silent = time_since(std::max(sign, context_.clock.at(calm_)));
  const bool called = node.state != model::NodeState::allocated;
  const Duration limit = !called            ? kFirstCall
                         : attempt.draining ? settings_.unreachable_after
                                            : settings_.lost_after;
  // A node that was only unreachable counts as draining from the next tick on.
  if (attempt.draining && time_since(*attempt.draining) < kMargin) return;
  const bool is_unmarked = called && !attempt.draining && !node.unreachable_since &&
                           silent >= settings_.unreachable_after + kMargin;
  if (is_unmarked || calm_time_since(sign) >= limit + kMargin ||
      silent >= settings_.widespread_lost_after + kMargin)
    context_.report_violation(format("{} is silent for {}, and counts as {}", text(node.id),
                                     text(silent), text(node.state)));
}

// False for an adopted node that has not called yet.
bool DeadlineChecker::has_lost_agent(const model::Node& node) const {
  if (node.state == model::NodeState::allocated) return false;
  const auto ended = truth_.agent_ended(name_of(durable_, node.id));
  const Time created = durable_.attempts.at(node.id.attempt).created;
  return ended && time_since(std::max(created, *ended)) >= kLeftoverDetectionMax + margin();
}

// Nodes that must be killed: lost ones, those without an agent, those that do not obey, and those
// that have reported everything and do not exit. The time counts from the adoption of an adopted
// attempt.
bool DeadlineChecker::is_to_be_killed(const model::Attempt& attempt,
                                      const model::Node& node) const {
  if (!truth_.is_alive(name_of(durable_, node.id))) return false;
  if (node.state == model::NodeState::lost || has_lost_agent(node)) return true;
  if (!attempt.draining) return false;
  if (time_since(*attempt.draining) >= settings_.log_delivery_limit + kMargin) return true;
  if (calm_time_since(*attempt.draining) < kStopPatience + kMargin) return false;
  if (truth_.has_ranks(node)) return true;
  const Time heard = truth_.last_report_time(name_of(durable_, node.id)).value_or(attempt.created);
  return calm_time_since(std::max(attempt.created, heard)) >= kSilence + kMargin;
}

void DeadlineChecker::check_kill(const model::Attempt& attempt, const model::Node& node) {
  if (!is_to_be_killed(attempt, node)) return;
  const auto killed = truth_.last_kill_time(name_of(durable_, node.id));
  const Duration ago = time_since(std::max(attempt.created, killed.value_or(Time{})));
  if (ago >= kKillInterval + margin())
    context_.report_violation(format("{} is {} and to be killed, and was not for {}", text(node.id),
                                     text(node.state), text(ago)));
}

void DeadlineChecker::check_start(const model::Attempt& attempt) {
  const bool waits =
      std::ranges::any_of(model::nodes_of(durable_, attempt.id),
                          [&](const model::Node* node) { return waits_at_engine(*node); });
  if (attempt.state >= model::AttemptState::running || waits ||
      calm_time_since(begin_of(attempt)) < kStartTimeLimit + kMargin)
    return;
  context_.report_violation(format("{} is {} for {}", text(attempt.id), text(attempt.state),
                                   text(time_since(attempt.created))));
}

// Agents enforce the time-out too, unless the daemon could not tell them that it counts. The daemon
// leaves it to them while it cannot reach one of them.
void DeadlineChecker::check_time_out(const model::Attempt& attempt, const model::Run& run) {
  if (attempt.state != model::AttemptState::running ||
      calm_time_since(Time{}) < kReportAgainMax + kMargin)
    return;
  const bool heard =
      std::ranges::all_of(model::nodes_of(durable_, attempt.id), [&](const model::Node* node) {
        return truth_.last_report_time(name_of(durable_, node->id)) >=
               context_.clock.at(std::max(well_, calm_));
      });
  const bool unreachable = std::ranges::any_of(
      model::nodes_of(durable_, attempt.id),
      [](const model::Node* node) { return node->unreachable_since.has_value(); });
  const Duration used = run.time_used + (context_.clock.now() - *attempt.started);
  if (heard && !unreachable && used >= model::time_limit(run))
    context_.report_violation(format("{} runs on after {}, its time-out is {}", text(attempt.id),
                                     text(used), text(model::time_limit(run))));
}

void DeadlineChecker::check_end(const model::Attempt& attempt) {
  if (!attempt.draining || calm_time_since(*attempt.draining) < kEnd + margin()) return;
  context_.report_violation(format("{} is to end for {}, and has not", text(attempt.id),
                                   text(time_since(*attempt.draining))));
}

}  // namespace lockstep::sim
