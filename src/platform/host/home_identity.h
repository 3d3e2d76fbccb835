// Identity of the folder with the daemon's files. A copied folder has all names and keys of the
// original: two daemons would treat each other's nodes as their own.
//
// `place.json` identifies the folder that was served last: its path, inode and creation time. A
// renamed folder is the same one, a copy is another.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep::host {

enum class HomeIdentity {
  same,    // the folder that was served last, under any path
  copied,  // another folder with its files
};

Result<HomeIdentity> home_identity_of(const Home& home);
// The folder that was served last, if it still exists under its path or beside that or this folder,
// and is not this one.
Result<std::optional<std::filesystem::path>> original_home_of(const Home& home);
// Records this folder as the one that is served.
Result<void> record_home_identity(const Home& home);

}  // namespace lockstep::host
