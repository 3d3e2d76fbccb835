// MemoryHistory: a HistoryKeeper without a file, for tests. It outlives stores as a file would.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/store/history_keeper.h"

namespace lockstep {

class MemoryHistory : public HistoryKeeper {
 public:
  Result<History> load() override { return history; }
  Result<void> keep(const History& kept) override {
    if (failure) return *failure;
    history = kept;
    return {};
  }
  // Where a test does not care, stores have none.
  std::string new_generation() override {
    if (generations.empty()) return "";
    std::string next = std::move(generations.front());
    generations.erase(generations.begin());
    return next;
  }

  History history;
  std::vector<std::string> generations;  // the next ones
  std::optional<Error> failure;          // of keep()
};

}  // namespace lockstep
