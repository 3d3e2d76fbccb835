// MemoryStore: a Store without a disk, for tests; it outlives the controllers that are opened
// on it, as a file would.
#pragma once

#include <optional>

#include "platform/store/store.h"

namespace lockstep::store {

class MemoryStore : public Store {
 public:
  Result<model::State> load() override {
    model::drop_unstored_orphans(state_);
    return state_;
  }
  Result<void> commit(std::span<const model::Change> changes) override {
    if (failure_) return *failure_;
    for (const model::Change& change : changes) model::apply(state_, change);
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
  model::State state_;
  std::optional<Error> failure_;
  int commits_ = 0;
};

}  // namespace lockstep::store
