// ReplayPolicy: what is tried on a trace, by name: a policy of the pass, and how well the lengths
// of jobs are known.
// A name is one of policy_words(), such as "easy" or "aged20x72" (easy in the order of submitted +
// 20 x min(length, 72 hours); any numbers do), and endings behind it, in any order:
// "easy-est-first". With `ours` and `ours-moves`, debug runs are those of up to one host and one
// hour.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/core/sched/policy.h"
#include "sim/trace/job_trace.h"

namespace lockstep::sim {

enum class Estimates { exact, bucketed };

struct ReplayPolicy {
  std::string name;
  SchedulingPolicy policy;
  Estimates estimates = Estimates::exact;
};

// What names are made of, for help: policies, then the endings, which begin with '-'.
struct PolicyWord {
  std::string_view name;
  std::string_view about;
};
std::vector<PolicyWord> policy_words();

Result<ReplayPolicy> parse_policy(std::string_view name);

// How long the scheduler thinks that a job of this length may run: itself, or the smallest time-out
// of 5 min, 15 min, 30 min, 1, 2, 4, 8, 12, 24, 48, 96, 168 h, and then doubled, that is enough.
Seconds estimate_of(Seconds duration, Estimates estimates);
std::vector<Seconds> limits_of(const JobTrace& trace, Estimates estimates);

}  // namespace lockstep::sim
