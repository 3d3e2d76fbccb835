// DeviceSet: indices of devices of a host. It needs no heap memory for hosts of up to 64 devices.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

class DeviceSet {
 public:
  // Add indices in ascending order, each once.
  void add(int device) {
    if (device < kLow)
      low_ |= std::uint64_t{1} << device;
    else
      high_.push_back(device);
    ++size_;
  }
  std::size_t size() const { return size_; }
  // Ascending.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint64_t left = low_; left != 0; left &= left - 1) visit(std::countr_zero(left));
    for (int device : high_) visit(device);
  }
  std::vector<int> indices() const {
    std::vector<int> all;
    all.reserve(size());
    for_each([&](int device) { all.push_back(device); });
    return all;
  }

 private:
  static constexpr int kLow = 64;

  std::uint64_t low_ = 0;  // a bit for each index below kLow
  std::vector<int> high_;  // the others
  std::size_t size_ = 0;
};

}  // namespace lockstep
