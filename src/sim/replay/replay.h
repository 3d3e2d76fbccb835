// replay() runs a job trace through a scheduler, second by second. At each second with an event,
// all ends come first, then all arrivals, then one decision. Jobs run exactly as long as the trace
// says, so that two policies differ by their decisions alone.
//
// A Backend decides: the pass alone (pass_backend.h), or any larger part of the platform that gets
// the same input. A job that is moved loses its progress since the last multiple of
// kCheckpointEvery of this execution, and kRestartCost in addition: it continues from its last
// checkpoint.
//
// So does an evicted job. It waits again; its first start counts as its start.
//
// Cost: the decisions, one for each second at which a job comes or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "sim/replay/job_trace.h"

namespace lockstep::sim {

// A job, by its index in JobTrace::jobs, from 0.
using JobId = Id<struct JobTag>;

inline constexpr Seconds kCheckpointEvery{1'800};
inline constexpr Seconds kRestartCost{120};

struct Decision {
  std::vector<JobId> evicted{};  // they wait again, from before any job starts
  std::vector<JobId> moved;      // to other devices, before any job starts
  std::vector<JobId> started;
  std::optional<JobId> head;  // the first that still waits, in the policy's order
};

class ReplayBackend {
 public:
  virtual ~ReplayBackend() = default;
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

// The state from `at` until the next moment.
struct UsageSample {
  Seconds at{};
  int allocated_devices = 0;     // devices
  bool any_job_waits = false;    // a job does
  bool head_fragmented = false;  // the head waits though as many devices are free as it needs
};

struct ReplayResult {
  std::vector<JobOutcome> jobs;      // as in the trace
  std::vector<UsageSample> moments;  // by time; from the last on nothing is held and no job waits
  Seconds lost{};                    // device-seconds of repeated work, and of restarts
};

// devices: of the whole cluster. progress: called with the jobs that have ended, now and then.
// The error is the backend's, or names a job that never starts.
Result<ReplayResult> replay(const JobTrace& trace, int devices, ReplayBackend& backend,
                            const std::function<void(std::size_t ended)>& progress = {});

}  // namespace lockstep::sim
