// When a budget runs low.
#pragma once

#include "platform/core/budget/ledger.h"

namespace lockstep::budget {

inline constexpr int kWarningPercent = 80;
inline constexpr int kUrgentPercent = 95;

// The share of what was granted and has not ended.
int used_percent(const Budget& budget);
// kUrgentPercent, kWarningPercent, or 0: no warning.
int warning_level(const Budget& budget);

// Sets Budget::warned after a change. A use raises it; other grants than those of the last warning
// set it to their own level.
void update_warning(Budget& budget);

}  // namespace lockstep::budget
