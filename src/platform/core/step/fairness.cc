#include "platform/core/step/fairness.h"

#include <map>

#include "platform/core/sched/share.h"

namespace lockstep {
namespace {

constexpr std::int64_t kDays = 7;

std::int64_t total_of(const Usage& usage, Time now) {
  std::int64_t total = usage.asked;
  for (auto day = usage.had.upper_bound(day_of(now) - kDays); day != usage.had.end(); ++day)
    total += day->second;
  return total;
}

}  // namespace

int share_of(const Draft& draft, const std::string& project) {
  std::map<std::string, std::int64_t> used{{project, 0}};
  for (const auto& [name, usage] : draft.usage())
    if (const std::int64_t total = total_of(usage, draft.now()); total > 0) used[name] = total;
  std::int64_t all = 0;
  for (const auto& [name, total] : used) all += total;
  return share_percent(used[project], all, 1, std::ssize(used));
}

}  // namespace lockstep
