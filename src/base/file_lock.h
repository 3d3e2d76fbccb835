// A lock on a file, which the system lets go when its holder ends, however it ends (flock).
//
// To look whether it is held, the lock is shared for an instant. Whoever takes it therefore tries
// for longer than any look lasts, and no look makes anybody give up.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

// Held for as long as the descriptor is open; empty, after a quarter of a second, while another
// process holds it. Makes the file (0600), not its folder.
Result<Fd> try_lock(const std::filesystem::path& file);
// Whether a process holds it, ours too. A file that cannot be opened is locked by nobody.
bool is_locked(const std::filesystem::path& file);

// Writes into the file whose lock is held which process holds it.
Result<void> sign_lock(const Fd& lock);
// The process on this machine that holds the lock and has signed it. What one that is dead left
// there is not believed, though its number may be another's by now.
std::optional<pid_t> holder_of_lock(const std::filesystem::path& file);

}  // namespace lockstep
