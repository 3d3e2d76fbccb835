// Which file systems several machines may see at once. A lock there need not hold between machines,
// SQLite's write-ahead log does not work, and process ids mean nothing to the other machines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace lockstep {

// The name of the shared file system with this magic number (statfs), such as "NFS"; empty for one
// of this machine alone. FUSE counts as shared: what stands behind it is not known.
std::string shared_file_system(std::uint32_t magic);

// The same for a path: it need not be there, its nearest parent is looked at.
std::string shared_file_system_of(const std::filesystem::path& path);

// shared_file_system_of(), or what a test says in its place.
using FileSystems = std::function<std::string(const std::filesystem::path&)>;

}  // namespace lockstep
