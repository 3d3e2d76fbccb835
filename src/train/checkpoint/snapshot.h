// Snapshot: a copy in memory of what this rank will write, laid out as its file will be. Its memory
// is used again by the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/plan.h"

namespace lockstep {

class Snapshot {
 public:
  // exhausted: there is no memory for it.
  Result<void> make(const SavePlan& plan);
  // Copies the tensors that are not steady; then, in the order of the file, and while others wait
  // for the beginning of it, the rest. They have the plan's form.
  void take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  void take_steady(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  // Begins at a page, as DataWriter asks for.
  std::string_view bytes() const { return {memory_.get(), size_}; }
  // How many of them, from the beginning on, are there; waits for `count`: a copy is under way.
  std::size_t await(std::size_t count) const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
  std::atomic<std::size_t> there_ = 0;
};

}  // namespace lockstep
