// Snapshot: a copy in memory of what this rank will write, laid out as its file will be. Taking it
// is what holds the training up; its memory is used again by the next.
#pragma once

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
  // The tensors have the plan's form. exhausted: there is no memory for it.
  Result<void> take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  // Begins at a page, as DataWriter asks for.
  std::string_view bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Result<void> make(std::size_t size);

  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace lockstep
