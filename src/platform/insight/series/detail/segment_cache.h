// SegmentCache: segments that are open, the newest 1,000, so that a store with many runs has few
// mappings. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/insight/series/detail/segment.h"

namespace lockstep::insight::series {

class SegmentCache {
 public:
  explicit SegmentCache(Blobs& blobs) : blobs_(blobs) {}

  Result<std::shared_ptr<const Segment>> open(const std::string& name) {
    if (const auto known = open_.find(name); known != open_.end()) return known->second;
    auto segment = TRY(Segment::open(TRY(blobs_.open(name))));
    if (order_.size() >= kOpenMax) {
      open_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(name);
    open_.emplace(name, segment);
    return segment;
  }
  void forget(const std::string& name) {
    if (open_.erase(name) > 0) std::erase(order_, name);
  }

 private:
  static constexpr std::size_t kOpenMax = 1000;

  Blobs& blobs_;
  std::map<std::string, std::shared_ptr<const Segment>> open_;
  std::deque<std::string> order_;
};

}  // namespace lockstep::insight::series
