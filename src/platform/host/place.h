// Which folder the daemon's files lie in. A folder that was copied has all names and keys of the
// original: two daemons would take each other's nodes for their own.
//
// `place.json` says which folder was served last: its path, its inode and when that was made. A
// folder that was renamed is still the same one. One that was copied is another.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep {

enum class HomePlace {
  same,    // the folder that was served last, whatever its path is now
  copied,  // another one with its files
};

Result<HomePlace> place_of(const Home& home);
// The folder that was served last, where it is still there under its path or beside that or this
// one, and is another than this.
Result<std::optional<std::filesystem::path>> original_of(const Home& home);
// This folder is the one that is served from now on.
Result<void> note_place(const Home& home);

}  // namespace lockstep
