// Snapshot: a copy in memory of the data that this rank will write, laid out as in its file. The
// next snapshot reuses its memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/save_plan.h"

namespace lockstep::train {

class Snapshot {
 public:
  // exhausted: there is no memory for it.
  Result<void> allocate(const SavePlan& plan);
  // Copies the tensors that are not stable. copy_stable() then copies the rest, in the order of the
  // file, while other threads wait for its first bytes. They have the plan's form.
  void copy_volatile(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  void copy_stable(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  // Starts at a page boundary, as DataWriter requires.
  std::string_view bytes() const { return {memory_.get(), size_}; }
  // The number of bytes copied, from the beginning on; waits for `count` while a copy is in flight.
  std::size_t wait_for_bytes(std::size_t count) const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
  std::atomic<std::size_t> copied_bytes_ = 0;
};

}  // namespace lockstep::train
