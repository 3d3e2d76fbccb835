#include "platform/agent/core/heartbeat_schedule.h"

#include <algorithm>
#include <chrono>

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kIntervalMin = milliseconds(50);
constexpr Duration kIntervalMax = seconds(15);  // half of the silence limit of a node
constexpr Duration kBackoffFirst = milliseconds(50);
constexpr Duration kBackoffMax = seconds(1);
constexpr Duration kNewCommandDelay =
    milliseconds(50);  // a new command changes the status; the changes join the next call
constexpr Duration kOrphanInterval = seconds(5);

Duration backoff(int failures) {
  return std::min(kBackoffMax, kBackoffFirst * (1 << std::min(failures - 1, 10)));
}

bool is_refusal(const Error& error) {
  return error.code == Code::denied || error.code == Code::not_found;
}

}  // namespace

// Bounded: the number comes from outside.
void HeartbeatSchedule::set_interval(Duration interval) {
  times_.heartbeat_interval = std::clamp(interval, kIntervalMin, kIntervalMax);
}

void HeartbeatSchedule::begin_call(Duration now) {
  begun_ = now;
  version_sent_ = version_;
}

bool HeartbeatSchedule::handle_answer(const model::Command& command, Duration now) {
  clear_failures();
  version_answered_ = version_sent_;
  last_contact_ = begun_;
  orphaned_ = command.orphaned;
  if (orphaned_) next_call_ = now + kOrphanInterval;
  if (orphaned_ && command.kind != model::CommandKind::stop) return false;
  if (!orphaned_) last_answer_ = now;
  if (!orphaned_ && command != command_) next_call_ = std::max(next_call_, now + kNewCommandDelay);
  command_ = command;
  return true;
}

bool HeartbeatSchedule::handle_failure(const Error& error, Duration now) {
  next_call_ = now + backoff(++failures_);
  if (!is_refusal(error)) refusal_end_.reset();
  if (is_refusal(error) && !refusal_end_) refusal_end_ = now + times_.refusal_limit;
  refused_ = refusal_end_ && now >= *refusal_end_;
  return refused_;
}

void HeartbeatSchedule::clear_failures() {
  failures_ = 0;
  refusal_end_.reset();
  next_call_ = begun_ + times_.heartbeat_interval;
}

}  // namespace lockstep::agent
