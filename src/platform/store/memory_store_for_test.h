// MemoryStore: a Store without a disk, for tests; it outlives the controllers that are opened
// on it, as a file would.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/store/store.h"

namespace lockstep::store {

class MemoryStore : public Store {
 public:
  Result<model::State> load() override {
    model::drop_unstored_orphans(state_);
    model::State state = state_;
    model::drop_ended_runs(state, Time::max());
    return state;
  }
  Result<std::optional<model::RunRows>> find_run(const model::RunId& run) override {
    if (!state_.runs.contains(run)) return std::optional<model::RunRows>();
    return std::optional(model::rows_of(state_, run));
  }
  Result<std::optional<model::RunId>> find_request(const std::string& request_id) override {
    const auto found = state_.requests.find(request_id);
    return found == state_.requests.end() ? std::nullopt : std::optional(found->second);
  }
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) override {
    return model::list_runs(state_, filter);
  }
  Result<void> commit(std::span<const model::Change> changes) override {
    if (failure_) return *failure_;
    for (const model::Change& change : changes) model::apply(state_, change);
    ++commits_;
    return {};
  }
  Result<void> remove_run(const model::RunRows& run) override {
    if (failure_) return *failure_;
    model::drop_ended_run(state_, run.run.id);
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
