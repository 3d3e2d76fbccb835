// A lock on a file, which the system lets go when its holder ends, however it ends (flock).
#pragma once

#include <filesystem>

#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

// Held for as long as the descriptor is open; empty while another process holds it. Makes the file
// (0600), not its folder.
Result<Fd> try_lock(const std::filesystem::path& file);
// Whether a process holds it, ours too. A file that cannot be opened is locked by nobody.
bool is_locked(const std::filesystem::path& file);

}  // namespace lockstep
