#include "comm/choice/choose.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "comm/choice/predict.h"

namespace lockstep {
namespace {

// Predictions are no better than that; and where two plans cost the same at many sizes, the choice
// does not go to and fro between them.
constexpr double kAsGood = 1.05;

}  // namespace

CallPlan choose(Operation operation, std::size_t bytes, const GroupShape& group,
                const Costs& costs) {
  auto plans = fitting_plans(operation, bytes, group);
  LS_CHECK(!plans.empty());
  std::stable_partition(plans.begin(), plans.end(),
                        [](const CallPlan& plan) { return plan.hierarchical; });
  std::vector<Seconds> times;
  for (const CallPlan& plan : plans) times.push_back(predict(plan, operation, bytes, group, costs));
  const auto least = *std::min_element(times.begin(), times.end());
  const auto found = std::find_if(times.begin(), times.end(),
                                  [&](Seconds time) { return time <= kAsGood * least; });
  return plans[static_cast<std::size_t>(found - times.begin())];
}

}  // namespace lockstep
