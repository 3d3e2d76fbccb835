#include "platform/identity/password/login_throttle.h"

#include <algorithm>
#include <chrono>

namespace lockstep::identity {
namespace {

constexpr int kFreeFailures = 5;
constexpr Duration kFirstWait = std::chrono::seconds(1);
constexpr Duration kLongestWait = std::chrono::minutes(5);
constexpr int kDoublingsMax = 9;  // 512 s
constexpr Duration kMemory = std::chrono::hours(1);
constexpr std::size_t kNamesMax = 10'000;

Duration wait_after(int failures) {
  if (failures < kFreeFailures) return Duration(0);
  return std::min(kFirstWait * (1 << std::min(failures - kFreeFailures, kDoublingsMax)),
                  kLongestWait);
}

}  // namespace

Duration FailureCounts::wait_of(const std::string& name, Duration now) const {
  const auto found = counts_.find(name);
  if (found == counts_.end() || now - found->second.last > kMemory) return Duration(0);
  const Count& count = found->second;
  return std::max(Duration(0), count.last + wait_after(count.failures) - now);
}

void FailureCounts::add(const std::string& name, Duration now) {
  if (counts_.size() >= kNamesMax && !counts_.contains(name)) {
    std::erase_if(counts_, [&](const auto& entry) { return now - entry.second.last > kMemory; });
    if (counts_.size() >= kNamesMax)
      counts_.erase(std::ranges::min_element(counts_, {},
                                             [](const auto& entry) { return entry.second.last; }));
  }
  Count& count = counts_[name];
  if (now - count.last > kMemory) count.failures = 0;
  ++count.failures;
  count.last = now;
}

Duration LoginThrottle::begin(const std::string& user, const std::string& address, Duration now) {
  const Duration wait = std::max(users_.wait_of(user, now), addresses_.wait_of(address, now));
  if (wait == Duration(0)) users_.add(user, now);
  return wait;
}

void LoginThrottle::fail(const std::string& address, Duration now) {
  if (!address.empty()) addresses_.add(address, now);
}

void LoginThrottle::succeed(const std::string& user, const std::string& address) {
  users_.clear(user);
  addresses_.clear(address);
}

}  // namespace lockstep::identity
