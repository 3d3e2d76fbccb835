// A lock on a file, which the kernel releases when the owning process ends, however it ends
// (flock).
//
// A check whether the lock is held takes it in shared mode for an instant. try_lock() therefore
// retries for longer than a check lasts, so a check makes no caller give up.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include <sys/types.h>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

// Longer than a check lasts, and short enough for a caller that gives up when the lock is held.
inline constexpr Duration kLockTimeout = std::chrono::milliseconds(250);

// The lock is held for as long as the descriptor is open. Empty if another holder, in this process
// or another, keeps the lock for all of `patience`. Makes the file (0600), not its folder.
Result<Fd> try_lock(const std::filesystem::path& file, Duration patience = kLockTimeout);
// True if a process holds the lock, this process included. A file that cannot be opened is not
// locked.
bool is_locked(const std::filesystem::path& file);

// Makes the process that holds the lock known to others: the kernel names it, and forgets it when
// the process ends. The file's content does not change. A process that closes another descriptor of
// the same file, or unlocks all of it (fcntl), loses this record; the lock stays.
Result<void> record_lock_owner(const Fd& lock);
// The other process on this machine that holds the lock and has recorded itself as its owner. Does
// not work in the process that holds it.
std::optional<pid_t> lock_owner(const std::filesystem::path& file);

}  // namespace lockstep
