#include "platform/server/heartbeat_pace.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace lockstep::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kCallsPerSecond = 500;
constexpr std::int64_t kCallsWithoutNewsPerSecond = 150;
constexpr std::int64_t kFewAgents = 100;
constexpr std::int64_t kBytesPerSecond = 8 << 20;
constexpr Duration kIntervalMin = milliseconds(200);
constexpr Duration kIntervalMax = seconds(10);  // a third of the silence limit of a node
// Each agent calls at least once in a period.
constexpr Duration kPeriod = 2 * kIntervalMax;

}  // namespace

void HeartbeatPace::record_call(const model::NodeName& node, std::size_t item_bytes, Duration now) {
  if (now - period_begin_ >= kPeriod) {
    previous_ = std::exchange(callers_, {});
    period_begin_ = now;
  }
  callers_.insert(node);
  const auto bytes = static_cast<std::int64_t>(item_bytes);
  items_end_ = std::max(items_end_, now) + microseconds(bytes * 1'000'000 / kBytesPerSecond);
  items_end_ = std::min(items_end_, now + kIntervalMax);
}

Duration HeartbeatPace::interval(bool has_news) const {
  const auto agents = static_cast<std::int64_t>(std::max(callers_.size(), previous_.size()));
  // Few agents call five times a second, also those without news.
  const bool are_few = agents <= kFewAgents;
  const auto rate = has_news || are_few ? kCallsPerSecond : kCallsWithoutNewsPerSecond;
  return std::clamp(Duration(seconds(agents)) / rate, kIntervalMin, kIntervalMax);
}

Duration HeartbeatPace::batch_pause(Duration now) const {
  return std::clamp(items_end_ - now, Duration(0), kIntervalMax);
}

}  // namespace lockstep::server
