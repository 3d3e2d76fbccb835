#include "train/checkpoint/format/fence.h"

#include <charconv>
#include <chrono>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The lock is held for a rename; whoever waits longer has a hung file system.
constexpr Duration kLockBound = std::chrono::seconds(30);

Result<Fd> lock_folder(const fs::path& folder) {
  Fd lock = TRY(try_lock(folder / ".lock", kLockBound));
  if (lock) return lock;
  return Error{Code::timeout, format("locking {}: another process has held it for {}",
                                     folder.string(), text(kLockBound))};
}

// 0 if nobody has claimed the folder.
Result<std::int64_t> read_epoch(const fs::path& folder) {
  auto words = read_file(folder / "EPOCH");
  if (!words && words.error().code == Code::not_found) return std::int64_t{0};
  if (!words) return std::move(words).error();
  std::int64_t epoch = 0;
  const auto end = std::from_chars(words->data(), words->data() + words->size(), epoch);
  if (end.ec != std::errc() || epoch < 0)
    return Error{Code::corrupt, format("{} holds no number: write the run's last epoch into it",
                                       (folder / "EPOCH").string())};
  return epoch;
}

Error stale(const fs::path& folder, std::int64_t mine, std::int64_t current) {
  return Error{Code::denied, format("epoch {} may not write to {}: epoch {} has taken over", mine,
                                    folder.string(), current)};
}

}  // namespace

Result<Fence> Fence::claim(const fs::path& folder, std::optional<std::int64_t> epoch) {
  const auto lock = TRY(lock_folder(folder));
  const auto current = TRY(read_epoch(folder));
  const auto mine = epoch.value_or(current + 1);
  if (mine < current) return stale(folder, mine, current);
  if (mine > current) TRY(write_file(folder / "EPOCH", format("{}\n", mine)));
  return Fence(folder, mine);
}

Result<void> Fence::check() const {
  const auto current = TRY(read_epoch(folder_));
  if (current > epoch_) return stale(folder_, epoch_, current);
  if (current < epoch_)
    return Error{Code::corrupt, format("{} holds {}, but epoch {} had claimed it: was the folder "
                                       "replaced?",
                                       (folder_ / "EPOCH").string(), current, epoch_)};
  return {};
}

Result<Fd> Fence::lock() const { return lock_folder(folder_); }

}  // namespace lockstep
