#include "net/connection_timeout.h"

#include "base/format.h"

namespace lockstep::net {
namespace {

constexpr Duration kConnectionTimeoutMin = std::chrono::seconds(1);
constexpr Duration kConnectionTimeoutMax = std::chrono::hours(1);

}  // namespace

Result<Duration> connection_timeout_from(const Environment& environment) {
  const auto found = environment.find(kConnectionTimeoutVariable);
  if (found == environment.end() || found->second.empty()) return kConnectionTimeout;
  const auto bound = parse_duration(found->second);
  if (bound && *bound >= kConnectionTimeoutMin && *bound <= kConnectionTimeoutMax) return *bound;
  return Error{Code::invalid, format("{}={}: expected a time of 1s to 1h, such as 30s: how long a "
                                     "host may be silent until its connections count as lost",
                                     kConnectionTimeoutVariable, found->second)};
}

}  // namespace lockstep::net
