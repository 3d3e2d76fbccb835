#include "platform/agent/core/idle_watch.h"

#include <utility>

namespace lockstep::agent {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);
constexpr int kUsedShare = 50;  // a window is used from 1 / 50 of a core on

}  // namespace

bool IdleWatch::observe(Duration cpu_time, Duration moment) {
  if (window_ && moment - window_->begin < kWindow) return false;
  const auto before = idle_since_;
  if (window_) {
    const Duration used = cpu_time - window_->cpu_time;
    const bool idle = used >= Duration(0) && used * kUsedShare < moment - window_->begin;
    if (!idle)
      idle_since_.reset();
    else if (!idle_since_)
      idle_since_ = window_->begin;
  }
  window_ = {moment, cpu_time};
  return idle_since_ != before;
}

bool IdleWatch::record_use() {
  window_.reset();
  return std::exchange(idle_since_, std::nullopt).has_value();
}

}  // namespace lockstep::agent
