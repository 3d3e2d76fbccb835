// HeartbeatSchedule: when an agent calls the daemon, and which orders follow from the answers.
// Pure: times are arguments, on a clock that does not jump.
//
// A change of the status is sent at once while the daemon answers. While it is away, calls are
// repeated with increasing pauses up to one second. A refusal (the node is fenced, or its run was
// deleted) counts only after several repeats: after a crash another program may briefly answer on
// the daemon's port. The daemon decides nothing about an orphan: only an operator's `stop` is an
// order, and calls are rare.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/command.h"

namespace lockstep::agent {

class HeartbeatSchedule {
 public:
  struct Times {
    Duration heartbeat_interval;  // between calls, until the daemon sets another
    Duration refusal_limit;       // how long refusals must last until they count
  };

  HeartbeatSchedule(Times times, Duration now)
      : times_(times), last_answer_(now), last_contact_(now) {}

  void record_status_change() { ++version_; }
  // The daemon's answer sets the time between calls, for this call and the later ones.
  void set_interval(Duration interval);
  Duration interval() const { return times_.heartbeat_interval; }
  void begin_call(Duration now);
  // The end of the call. True if the agent has an order to apply.
  bool handle_answer(const model::Command& command, Duration now);
  // The call failed. True if the daemon has refused the node for too long, which is an order too.
  bool handle_failure(const Error& error, Duration now);
  // The call failed for a reason that does not concern the daemon: the next one follows as usual.
  void clear_failures();

  // When the next call is due if there is no news.
  Duration next_call() const { return next_call_; }
  // True if the status changed since the last call, and the next call need not wait.
  bool has_news() const { return answers() && version_sent_ != version_; }
  bool answers() const { return failures_ == 0; }
  bool is_orphaned() const { return orphaned_; }
  // True if the daemon has the current status.
  bool is_status_delivered() const { return version_answered_ == version_; }
  Duration last_answer() const { return last_answer_; }
  // The begin of the last call that was answered: the daemon received it at that time or later.
  Duration last_contact() const { return last_contact_; }

  // The last order, and whether refusals count.
  const model::Command& command() const { return command_; }
  bool is_refused() const { return refused_; }

 private:
  Times times_;
  std::int64_t version_ = 1;           // of the status
  std::int64_t version_sent_ = 0;      // in the call in progress, or in the last one
  std::int64_t version_answered_ = 0;  // the last acknowledged version
  Duration begun_{};                   // the call in progress
  Duration next_call_{};
  Duration last_answer_;
  Duration last_contact_;
  int failures_ = 0;                     // in a row
  std::optional<Duration> refusal_end_;  // of refusals without a break
  model::Command command_;
  bool refused_ = false;
  bool orphaned_ = false;
};

}  // namespace lockstep::agent
