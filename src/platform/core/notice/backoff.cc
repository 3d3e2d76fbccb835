#include "platform/core/notice/backoff.h"

#include <algorithm>

namespace lockstep::notice {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(10);
constexpr Duration kLongestPause = std::chrono::hours(1);
constexpr int kDoublingsMax = 10;  // beyond the longest pause

}  // namespace

Duration pause_after(int failures) {
  const int doublings = std::clamp(failures - 1, 0, kDoublingsMax);
  return std::min(kFirstPause * (1 << doublings), kLongestPause);
}

}  // namespace lockstep::notice
