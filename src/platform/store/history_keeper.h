// HistoryKeeper: where the history of a folder's stores outlives them, and names for new ones.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/core/model/history.h"

namespace lockstep {

class HistoryKeeper {
 public:
  virtual ~HistoryKeeper() = default;

  // Empty if nothing was kept yet.
  virtual Result<History> load() = 0;
  // Durable once it has returned.
  virtual Result<void> keep(const History& history) = 0;
  // 16 random hex digits.
  virtual std::string new_generation() = 0;
};

// In the file `stores.json` of the daemon's folder.
class HistoryFile : public HistoryKeeper {
 public:
  explicit HistoryFile(std::filesystem::path file) : file_(std::move(file)) {}

  Result<History> load() override;
  Result<void> keep(const History& history) override;
  std::string new_generation() override;

 private:
  const std::filesystem::path file_;
};

}  // namespace lockstep
