// A lock on a file, which the system lets go when its holder ends, however it ends (flock).
//
// To look whether it is held, the lock is shared for an instant. Whoever takes it therefore tries
// for longer than any look lasts, and no look makes anybody give up.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

// Longer than any look, and short enough for whoever gives up when the lock is held.
inline constexpr Duration kLockPatience = std::chrono::milliseconds(250);

// Held for as long as the descriptor is open; empty when somebody else, in this process or another,
// has held it for all of `patience`. Makes the file (0600), not its folder.
Result<Fd> try_lock(const std::filesystem::path& file, Duration patience = kLockPatience);
// Whether a process holds it, ours too. A file that cannot be opened is locked by nobody.
bool is_locked(const std::filesystem::path& file);

// Makes the process that holds the lock known to others: the kernel names it, and forgets it when
// the process ends. The file's content does not change. A process that closes another descriptor
// of the same file, or unlocks all of it (fcntl), loses its signature; the lock stays.
Result<void> sign_lock(const Fd& lock);
// The other process on this machine that holds the lock and has signed it. Not for the process
// that holds it.
std::optional<pid_t> holder_of_lock(const std::filesystem::path& file);

}  // namespace lockstep
