// ActivityWatch: the state of the processes of each rank, and since when one of them is stopped or
// blocked. A stopped process is reported at once; one in state D only after it has not run at all
// for a few seconds, because disk reads enter that state briefly. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/os/processes.h"
#include "base/units.h"
#include "platform/agent/core/event.h"
#include "platform/core/model/attempt.h"

namespace lockstep::agent {

inline constexpr Duration kBlockedAfter = std::chrono::seconds(5);

struct ProcessSample {
  Process process;
  // Changes whenever its main thread has run: /proc/PID/task/PID/schedstat. Needed only in state D.
  std::string schedstat{};
};

class ActivityWatch {
 public:
  // `moment` is the time of the sample, on a clock that does not jump. If a rank has several
  // processes, such as a shell and its child, the state counts that best explains a hang: stopped,
  // blocked, running, sleeping, in this order.
  RankActivity observe(int local_rank, const std::vector<ProcessSample>& processes,
                       Duration moment);
  void remove_rank(int local_rank) { stuck_.erase(local_rank); }

 private:
  struct StuckProcess {
    model::Activity activity = model::Activity::unknown;
    std::string ran;
    Duration since{};
  };
  std::map<int, std::map<pid_t, StuckProcess>> stuck_;  // by local rank
};

}  // namespace lockstep::agent
