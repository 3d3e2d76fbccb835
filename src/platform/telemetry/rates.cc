#include "platform/telemetry/rates.h"

#include <utility>

namespace lockstep::telemetry {

std::optional<double> Rates::per_second(const std::string& counter, double value, Duration now,
                                        double wraps_at) {
  const auto [entry, is_first] = last_.try_emplace(counter, Last{value, now});
  const Last before = std::exchange(entry->second, Last{value, now});
  if (is_first || now <= before.at) return std::nullopt;
  double change = value - before.value;
  if (change < 0) change += wraps_at;
  if (change < 0) return std::nullopt;
  return change / in_seconds(now - before.at);
}

}  // namespace lockstep::telemetry
