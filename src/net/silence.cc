#include "net/silence.h"

#include "base/format.h"

namespace lockstep {
namespace {

constexpr auto kSilenceVariable = "LOCKSTEP_CONNECTION_TIMEOUT";
constexpr Duration kShortestSilence = std::chrono::seconds(1);
constexpr Duration kLongestSilence = std::chrono::hours(1);

}  // namespace

Result<Duration> silence_bound_of(const Environment& environment) {
  const auto found = environment.find(kSilenceVariable);
  if (found == environment.end() || found->second.empty()) return kSilenceBound;
  const auto bound = parse_duration(found->second);
  if (bound && *bound >= kShortestSilence && *bound <= kLongestSilence) return *bound;
  return Error{Code::invalid, format("{}={}: expected a time of 1s to 1h, such as 30s: how long a "
                                     "host may be silent until its connections count as lost",
                                     kSilenceVariable, found->second)};
}

}  // namespace lockstep
