// ForkWitness: tells whether any of the children that were forked while it was mapped, or their
// children, still has the memory that it had at the fork. A child loses it when it ends or executes
// another program, and in no other way: it may close all descriptors.
//
// It is a page that children inherit. The system refuses to seal shared memory against writes while
// any process maps it.
#pragma once

#include <memory>
#include <utility>

#include "base/os/fd.h"

namespace lockstep::comm {

class ForkWitness {
 public:
  // Null if the system has no descriptor left.
  static std::unique_ptr<ForkWitness> create();

  bool map();  // before a fork; false if the system refuses
  bool is_mapped() const { return page_ != nullptr; }
  void unmap();  // in the parent, after it
  // Once it is true, it cannot be mapped again.
  bool children_are_gone();

 private:
  explicit ForkWitness(Fd memfd) : memfd_(std::move(memfd)) {}
  const Fd memfd_;
  void* page_ = nullptr;
  bool sealed_ = false;
};

}  // namespace lockstep::comm
