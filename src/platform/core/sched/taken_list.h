// TakenList: what one run holds, by host. Most runs hold devices of one host: that one lies in the
// list itself, so that thousands of them need no memory of their own.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/units.h"
#include "platform/core/sched/device_set.h"
#include "platform/core/sched/host_table.h"

namespace lockstep {

// Devices of one host, by its position in the map, and what goes with them.
struct Taken {
  int host = 0;
  int cores = 0;
  Bytes memory{};
  DeviceSet devices{};
};
inline Load load_of(const Taken& taken) {
  return {static_cast<int>(taken.devices.size()), taken.cores, taken.memory};
}

class TakenList {
 public:
  void reserve(std::size_t count) {
    if (count > 1) more_.reserve(count);
  }
  void push_back(Taken taken) {
    if (size_ == 0) {
      one_ = std::move(taken);
    } else {
      if (size_ == 1) more_.push_back(std::move(one_));
      more_.push_back(std::move(taken));
    }
    ++size_;
  }
  std::size_t size() const { return size_; }
  const Taken* begin() const { return size_ > 1 ? more_.data() : &one_; }
  const Taken* end() const { return begin() + size_; }
  const Taken* data() const { return begin(); }
  const Taken& front() const { return *begin(); }

 private:
  std::size_t size_ = 0;
  Taken one_{};
  std::vector<Taken> more_;  // all of them, if there are several
};

}  // namespace lockstep
