#include "platform/core/step/starting/project_share.h"

#include <map>

#include "platform/core/sched/queue/fair_share.h"

namespace lockstep::step {
namespace {

constexpr std::int64_t kDays = 7;

std::int64_t total_of(const model::Usage& usage, Time now) {
  std::int64_t total = usage.outstanding;
  for (auto day = usage.used_by_day.upper_bound(model::day_of(now) - kDays);
       day != usage.used_by_day.end(); ++day)
    total += day->second;
  return total;
}

int weight_of(const Draft& draft, const std::string& project) {
  const model::LimitRow* row = draft.limits.find({model::LimitScope::project, project});
  return row ? row->weight : 1;
}

}  // namespace

int fair_share_used_by(const Draft& draft, const std::string& project) {
  std::map<std::string, std::int64_t> used{{project, 0}};
  for (const auto& [name, usage] : draft.usage())
    if (const std::int64_t total = total_of(usage, draft.now()); total > 0) used[name] = total;
  std::int64_t all = 0, weight_of_all = 0;
  for (const auto& [name, total] : used) {
    all += total;
    weight_of_all += weight_of(draft, name);
  }
  return sched::fair_share_used_percent(used[project], all, weight_of(draft, project),
                                        weight_of_all);
}

}  // namespace lockstep::step
