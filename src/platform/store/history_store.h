// HistoryStore: the history of a folder's stores, which outlives them, and names for new ones.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/core/model/history.h"

namespace lockstep::store {

class HistoryStore {
 public:
  virtual ~HistoryStore() = default;

  // Empty if nothing was stored yet.
  virtual Result<model::StoreHistory> load() = 0;
  // Durable once it has returned.
  virtual Result<void> store(const model::StoreHistory& history) = 0;
  // 16 random hex digits.
  virtual std::string new_generation() = 0;
};

// In the file `stores.json` of the daemon's folder.
class HistoryFile : public HistoryStore {
 public:
  explicit HistoryFile(std::filesystem::path file) : file_(std::move(file)) {}

  Result<model::StoreHistory> load() override;
  Result<void> store(const model::StoreHistory& history) override;
  std::string new_generation() override;

 private:
  const std::filesystem::path file_;
};

}  // namespace lockstep::store
