// ActivityWatch: what the processes of each rank do, and since when one of them stands still. A
// stopped process is told at once; one in the state D only after it has not run at all for a few
// seconds, because whoever reads a disk is in that state for moments. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/processes.h"
#include "base/units.h"
#include "platform/core/model/attempt.h"

namespace lockstep {

inline constexpr Duration kBlockedAfter = std::chrono::seconds(5);

struct Seen {
  Process process;
  // Changes whenever its main thread has run: /proc/PID/task/PID/schedstat. Only asked for where
  // the state is D.
  std::string ran{};
};

struct Doing {
  Activity activity = Activity::unknown;
  std::optional<Duration> since{};  // the moment since which it is blocked or stopped

  bool operator==(const Doing&) const = default;
};

class ActivityWatch {
 public:
  // At this moment, on a clock that does not jump. Of several processes, such as a shell and what
  // it waits for, the one counts that most explains a hang: stopped, blocked, running, sleeping.
  Doing look(int local_rank, const std::vector<Seen>& processes, Duration moment);
  void end(int local_rank) { still_.erase(local_rank); }

 private:
  struct Still {
    Activity activity = Activity::unknown;
    std::string ran;
    Duration since{};
  };
  std::map<int, std::map<pid_t, Still>> still_;  // by local rank
};

}  // namespace lockstep
