// MemoryStore: a Store without a disk, for tests; it outlives the controllers that are opened
// on it, as a file would.
#pragma once

#include <optional>

#include "platform/store/store.h"

namespace lockstep {

class MemoryStore : public Store {
 public:
  Result<State> load() override {
    drop_unstored_orphans(state_);
    return state_;
  }
  Result<void> commit(std::span<const Change> changes) override {
    if (failure_) return *failure_;
    for (const Change& change : changes) apply(state_, change);
    ++commits_;
    return {};
  }
  Result<void> check_writable() override {
    if (failure_) return *failure_;
    return {};
  }

  // From now on commit() and check_writable() fail with this; nullopt: they work again.
  void fail_with(std::optional<Error> failure) { failure_ = std::move(failure); }
  int commits() const { return commits_; }

 private:
  State state_;
  std::optional<Error> failure_;
  int commits_ = 0;
};

}  // namespace lockstep
