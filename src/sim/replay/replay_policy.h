// ReplayPolicy: what is tried on a trace, by name: a policy of the pass, and how well the lengths
// of jobs are known.
//
//   fifo                 first come, first served; the head blocks
//   fifo-greedy          first come, first served; whoever fits starts
//   easy                 fifo, and who does not delay the head may pass it
//   easy-sjbf            easy, but of those behind the head the shortest are looked at first
//   sjf-strict, sjf      shortest job first; the head blocks, or whoever fits starts
//   ours, ours-moves     the daemon's own: aged, a decision settles; and with all that moves or
//   pauses
//                        runs (sched/policy.h); debug runs are those of up to one host and one hour
//   agedC, agedCxH       easy in the order of submitted + C x min(length, H hours)
//
// and behind it, in any order: -est (lengths are known as users tell them: the next of 5 min,
// 15 min, ... 168 h), -defrag (small jobs are moved for a head that would fit), -first (the lowest
// hosts that fit, not the best), -fgd (those that leave the least fragments).
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

Result<ReplayPolicy> parse_policy(std::string_view name);

// How long the scheduler thinks that a job of this length may run: itself, or the smallest time-out
// of 5 min, 15 min, 30 min, 1, 2, 4, 8, 12, 24, 48, 96, 168 h, and then doubled, that is enough.
Seconds estimate_of(Seconds duration, Estimates estimates);
std::vector<Seconds> limits_of(const JobTrace& trace, Estimates estimates);

}  // namespace lockstep::sim
