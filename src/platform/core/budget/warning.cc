#include "platform/core/budget/warning.h"

#include <algorithm>

namespace lockstep::budget {
namespace {

DeviceTime granted_of(const Budget& budget) {
  DeviceTime granted(0);
  for (const Grant& grant : budget.grants) granted += grant.granted;
  return granted;
}

}  // namespace

int used_percent(const Budget& budget) {
  const DeviceTime granted = granted_of(budget);
  if (granted == DeviceTime(0)) return budget.spent > DeviceTime(0) ? 100 : 0;
  const DeviceTime used = granted - budget.available - budget.held;
  return static_cast<int>(100 * (used / Duration(1)) / (granted / Duration(1)));
}

int warning_level(const Budget& budget) {
  const int used = budget.limited ? used_percent(budget) : 0;
  return used >= kUrgentPercent ? kUrgentPercent : used >= kWarningPercent ? kWarningPercent : 0;
}

void update_warning(Budget& budget) {
  const DeviceTime granted = granted_of(budget);
  const int level = warning_level(budget);
  const bool is_same = granted == budget.warned.granted || granted == DeviceTime(0);
  budget.warned = {is_same ? std::max(budget.warned.percent, level) : level, granted};
}

}  // namespace lockstep::budget
