// MemoryHistory: a HistoryStore without a file, for tests. It outlives stores as a file would.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/store/history_store.h"

namespace lockstep::store {

class MemoryHistory : public HistoryStore {
 public:
  Result<model::StoreHistory> load() override { return history; }
  Result<void> store(const model::StoreHistory& kept) override {
    if (failure) return *failure;
    history = kept;
    return {};
  }
  // Empty unless a test sets generations.
  std::string new_generation() override {
    if (generations.empty()) return "";
    std::string next = std::move(generations.front());
    generations.erase(generations.begin());
    return next;
  }

  model::StoreHistory history;
  std::vector<std::string> generations;  // the next ones
  std::optional<Error> failure;          // of store()
};

}  // namespace lockstep::store
