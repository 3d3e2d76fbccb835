// Fence: only the newest attempt of a run may write its checkpoints. The file EPOCH holds the
// highest epoch that claimed the folder; a writer with a lower one is refused, for instance a rank
// of an earlier attempt that was taken for dead and was only cut off. Claiming, and checking with
// the rename that follows, happen under one lock of the folder, so that nothing slips in between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

class Fence {
 public:
  // Makes `epoch` the folder's; without one, takes the next. denied: a higher one has claimed it.
  static Result<Fence> claim(const std::filesystem::path& folder,
                             std::optional<std::int64_t> epoch);

  std::int64_t epoch() const { return epoch_; }
  // denied once a higher epoch has claimed the folder; corrupt if the claim is gone.
  Result<void> check() const;
  // The folder's lock: while it lives, nobody claims the folder.
  Result<Fd> lock() const;

 private:
  Fence(std::filesystem::path folder, std::int64_t epoch)
      : folder_(std::move(folder)), epoch_(epoch) {}

  std::filesystem::path folder_;
  std::int64_t epoch_;
};

}  // namespace lockstep
