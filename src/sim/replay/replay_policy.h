// ReplayPolicy: a policy of the pass, and how well the durations of jobs are known, by name.
// A name is one of policy_words(), such as "easy" or "aged20x72" (easy in the order of submitted +
// 20 x min(duration, 72 hours); any numbers are allowed), and suffixes in any order:
// "easy-est-first". With `ours` and `ours-moves`, debug runs are those of up to one host and one
// hour.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/core/sched/policy.h"
#include "sim/replay/job_trace.h"

namespace lockstep::sim {

enum class Estimates { exact, bucketed };

struct ReplayPolicy {
  std::string name;
  sched::SchedulingPolicy policy;
  Estimates estimates = Estimates::exact;
};

// The parts of policy names, for help: policies, then the suffixes, which begin with '-'.
struct PolicyNamePart {
  std::string_view name;
  std::string_view about;
};
std::vector<PolicyNamePart> policy_name_parts();

Result<ReplayPolicy> parse_policy(std::string_view name);

// The scheduler's estimate for a job of this duration: the duration itself, or the smallest
// sufficient time-out of 5 min, 15 min, 30 min, 1, 2, 4, 8, 12, 24, 48, 96, 168 h, and then
// doubled.
Seconds estimate_of(Seconds duration, Estimates estimates);
std::vector<Seconds> limits_of(const JobTrace& trace, Estimates estimates);

}  // namespace lockstep::sim
