#include "platform/spool/telemetry_item.h"

#include <algorithm>

namespace lockstep::spool {

int line_count(const TelemetryItem& item) {
  if (item.kind != TelemetryKind::log) return 0;
  return 1 + static_cast<int>(std::ranges::count(item.text, '\n'));
}

}  // namespace lockstep::spool
