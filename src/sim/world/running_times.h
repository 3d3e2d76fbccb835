// RunningTimes: how long the ranks of each attempt really ran. It bounds the time that a run may be
// charged for an attempt: never time in which some of the ranks had not begun, or all had ended;
// always time in which the daemon knew that all ran.
//
// Between the two bounds is time that the daemon cannot know: from the start of the ranks to the
// report of it, and the time that unreachable ranks ran on.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "platform/core/model/attempt.h"
#include "platform/core/model/event.h"
#include "platform/core/model/run.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

// All ranks run within this time after their attempt was made (docs/design/attempts.md).
inline constexpr Duration kStartTimeLimit = std::chrono::minutes(5);

class RunningTimes {
 public:
  explicit RunningTimes(const SimContext& context) : context_(context) {}

  void rank_began(const model::AttemptName& attempt);
  void rank_ended(const model::AttemptName& attempt);
  // Its agent has seen the end of a rank: at once, or when the agent is resumed. It reports this
  // time as that of the end.
  void rank_end_seen(const model::AttemptName& attempt);
  // This report reached the daemon.
  void report_arrived(const model::NodeReport& report);
  // The daemon accepted the reports of that moment, and they are durable.
  void report_accepted(const model::NodeReport& report, Duration arrived);

  // Forgets the accepted reports, since the store is another one or an older copy.
  void forget_reports();

  struct Bounds {
    Duration least{};
    Duration most{};
  };
  // The attempt must have ended.
  Bounds charge_for(const model::Attempt& attempt, const model::RunSpec& spec) const;
  // How long all its ranks had run when its end began; zero if they never did. If some began too
  // late, those that waited for them need not have known.
  Duration running_time(const model::Attempt& attempt, const model::RunSpec& spec) const;

 private:
  // On the timeline.
  struct ObservedAttempt {
    int began = 0;         // ranks
    Duration first{};      // of them began
    Duration all_began{};  // the last of them did
    Duration last_end{};   // of a rank, as seen by its agent
    std::optional<Duration> first_end{};
    std::map<int, Duration> known;  // nodes, and when their running ranks were first accepted
    Duration last_arrived{};        // anything but the end of ranks
    Duration last_accepted{};       // reports that ranks run
  };
  // When it began to drain.
  Duration draining_of(const model::Attempt& attempt) const;
  Duration most_of(const ObservedAttempt& seen, const model::Attempt& attempt,
                   const model::RunSpec& spec) const;
  Duration least_of(const ObservedAttempt& seen, const model::Attempt& attempt,
                    const model::RunSpec& spec) const;

  const SimContext& context_;
  std::map<model::AttemptName, ObservedAttempt> observed_;
};

}  // namespace lockstep::sim
