// replay(): a job trace through a scheduler, second by second: at each second at which something
// happens first all ends, then all arrivals, then one decision. Jobs run exactly as long as the
// trace says, so that two policies differ by their decisions alone.
//
// What decides is a Backend: the pass by itself (pass_backend.h), or anything around it that is
// told the same. A job that is moved loses its progress since the last multiple of kCheckpointEvery
// of this stay, and kRestartCost on top: it goes on from its last checkpoint.
//
// So does one that is evicted; it waits again, and has started when it first did.
//
// Cost: that of the decisions, one for each second at which a job comes or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "sim/trace/job_trace.h"

namespace lockstep::sim {

// A job by its place in JobTrace::jobs, from 0.
using JobId = Id<struct JobTag>;

inline constexpr Seconds kCheckpointEvery{1'800};
inline constexpr Seconds kRestartCost{120};

struct Decision {
  std::vector<JobId> evicted{};  // they wait again, from before anybody starts
  std::vector<JobId> moved;      // to other devices, before anybody starts
  std::vector<JobId> started;
  std::optional<JobId> head;  // of those that still wait the first in the policy's order
};

class Backend {
 public:
  virtual ~Backend() = default;
  // `now` grows from call to call. `ended` are by (their end, trace), `arrived` in the trace's
  // order.
  virtual Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                                  std::span<const JobId> arrived) = 0;
};

struct JobOutcome {
  Seconds started{};  // for the first time; since the trace's first submission
  Seconds ended{};
  int moves = 0;
  int evictions = 0;
};

// How things stand from `at` until the next moment.
struct Moment {
  Seconds at{};
  int held = 0;            // devices
  bool waits = false;      // somebody does
  bool scattered = false;  // the head waits though as many devices are free as it needs
};

struct Replayed {
  std::vector<JobOutcome> jobs;  // as in the trace
  std::vector<Moment> moments;   // by time; nothing is held and nobody waits from the last on
  Seconds lost{};                // device-seconds of work that was done again, and of restarts
};

// devices: of the whole cluster. progress: called with the jobs that have ended, now and then.
// The error is the backend's, or names a job that never starts.
Result<Replayed> replay(const JobTrace& trace, int devices, Backend& backend,
                        const std::function<void(std::size_t ended)>& progress = {});

}  // namespace lockstep::sim
