// File systems that several machines may access at once. A lock there may not hold between
// machines, SQLite's write-ahead log does not work, and process ids mean nothing to the other
// machines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::host {

// The name of the shared file system with this magic number (statfs), such as "NFS"; empty for a
// local one. FUSE counts as shared: the storage behind it is unknown.
std::string shared_file_system(std::uint32_t magic);

// The same for a path; if it does not exist, its nearest existing parent counts.
std::string shared_file_system_of(const std::filesystem::path& path);

// shared_file_system_of(), or a replacement of a test.
using SharedFileSystemLookup = std::function<std::string(const std::filesystem::path&)>;

}  // namespace lockstep::host
