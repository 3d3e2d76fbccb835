#include "sim/deadlines.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// As docs/design/platform.md promises.
constexpr Duration kSilence = seconds(30);       // of an agent, until its node is lost
constexpr Duration kFirstCall = minutes(1);      // of one that never called
constexpr Duration kStopPatience = seconds(15);  // to `stop`, until force is used
constexpr Duration kTwoLooks = seconds(2);       // at what an agent that died has left
constexpr Duration kHearAgain = seconds(15);     // all agents, before a time-out is decided
// What is to end is gone by then: an agent may obey, and stand still before it has left.
constexpr Duration kEnd = kStopPatience + kSilence + kKillAgain;
// An orphan that is to end: its agents call every 5 s.
constexpr Duration kOrphanEnd = seconds(5) + kStopPatience + kKillAgain;
// Ticks come once a second.
constexpr Duration kMargin = seconds(2);
constexpr Duration kBreak = seconds(3);  // between two checks: the daemon was away meanwhile

}  // namespace

void Deadlines::check(bool well) {
  const Duration now = scene_.timeline.now();
  const bool broke = !well || now - checked_ > kBreak;
  checked_ = now;
  if (broke) well_ = now;
  for (const RunId& run : durable_.open)
    if (const Attempt* attempt = live_attempt(durable_, run))
      check_attempt(*attempt, durable_.runs.at(run));
  check_orphans();
}

void Deadlines::check_orphans() const {
  for (const auto& [attempt, asked] : truth_.stopped_orphans())
    if (truth_.lives(attempt) && since(scene_.clock.at(asked)) >= kOrphanEnd + kMargin)
      scene_.violate(format("{} of another store is to end for {}, and has not", text(attempt),
                            text(since(scene_.clock.at(asked)))));
}

Duration Deadlines::since(Time moment) const {
  return scene_.clock.now() - std::max(moment, scene_.clock.at(well_));
}

void Deadlines::check_attempt(const Attempt& attempt, const Run& run) {
  for (const Node* node : nodes_of(durable_, attempt.id)) {
    if (node->state == NodeState::released) continue;
    check_silence(*node);
    check_kill(attempt, *node);
  }
  check_start(attempt);
  check_time_out(attempt, run);
  check_end(attempt);
}

void Deadlines::check_silence(const Node& node) {
  if (node.state == NodeState::lost || truth_.has_told_all(name_of(durable_, node.id))) return;
  const bool called = node.state != NodeState::allocated;
  const Time created = durable_.attempts.at(node.id.attempt).created;
  const Duration silent =
      since(std::max(created, truth_.last_word(name_of(durable_, node.id)).value_or(created)));
  if (silent >= (called ? kSilence : kFirstCall) + kMargin)
    scene_.violate(format("{} is silent for {}, and counts as {}", text(node.id), text(silent),
                          text(node.state)));
}

// One that was adopted and has not called yet is waited for.
bool Deadlines::is_left_behind(const Node& node) const {
  if (node.state == NodeState::allocated) return false;
  const auto ended = truth_.agent_ended(name_of(durable_, node.id));
  const Time created = durable_.attempts.at(node.id.attempt).created;
  return ended && since(std::max(created, *ended)) >= kTwoLooks + kMargin;
}

// Since its attempt was adopted, if it was. Those that are lost, those without their agent, those
// that do not obey, and those that have nothing more to tell and do not leave.
bool Deadlines::is_to_be_killed(const Attempt& attempt, const Node& node) const {
  if (!truth_.lives(name_of(durable_, node.id))) return false;
  if (node.state == NodeState::lost || is_left_behind(node)) return true;
  if (!attempt.draining || since(*attempt.draining) < kStopPatience + kMargin) return false;
  if (truth_.has_ranks(node)) return true;
  const Time heard = truth_.last_word(name_of(durable_, node.id)).value_or(attempt.created);
  return since(std::max(attempt.created, heard)) >= kSilence + kMargin;
}

void Deadlines::check_kill(const Attempt& attempt, const Node& node) {
  if (!is_to_be_killed(attempt, node)) return;
  const auto killed = truth_.last_kill(name_of(durable_, node.id));
  const Duration ago = since(std::max(attempt.created, killed.value_or(Time{})));
  if (ago >= kKillAgain + kMargin)
    scene_.violate(format("{} is {} and to be killed, and was not for {}", text(node.id),
                          text(node.state), text(ago)));
}

void Deadlines::check_start(const Attempt& attempt) {
  if (attempt.state >= AttemptState::running || since(attempt.created) < kStart + kMargin) return;
  scene_.violate(format("{} is {} for {}", text(attempt.id), text(attempt.state),
                        text(since(attempt.created))));
}

// Agents mind it too, unless they could not be told that it counts.
void Deadlines::check_time_out(const Attempt& attempt, const Run& run) {
  if (attempt.state != AttemptState::running || since(Time{}) < kHearAgain + kMargin) return;
  const bool heard = std::ranges::any_of(nodes_of(durable_, attempt.id), [&](const Node* node) {
    return truth_.last_word(name_of(durable_, node->id)) >= scene_.clock.at(well_);
  });
  const Duration used = run.charged + (scene_.clock.now() - *attempt.started);
  if (heard && used >= run.spec.timeout)
    scene_.violate(format("{} runs on after {}, its time-out is {}", text(attempt.id), text(used),
                          text(run.spec.timeout)));
}

void Deadlines::check_end(const Attempt& attempt) {
  if (!attempt.draining || since(*attempt.draining) < kEnd + kMargin) return;
  scene_.violate(
      format("{} is to end for {}, and has not", text(attempt.id), text(since(*attempt.draining))));
}

}  // namespace lockstep::sim
