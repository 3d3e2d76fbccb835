#include "sim/world/timeline.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::sim {

bool Timeline::later(const Entry& a, const Entry& b) {
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

void Timeline::after(Duration delay, Action action) {
  LS_CHECK(delay >= Duration(0));
  heap_.push_back({now_ + delay, planned_++, std::move(action)});
  std::ranges::push_heap(heap_, later);
}

bool Timeline::step(Duration until) {
  if (heap_.empty() || heap_.front().at > until) return false;
  std::ranges::pop_heap(heap_, later);
  const Entry entry = std::move(heap_.back());
  heap_.pop_back();
  now_ = entry.at;
  ++steps_;
  entry.action();
  return true;
}

}  // namespace lockstep::sim
