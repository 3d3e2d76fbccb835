// Operations on whole files and folders: open, read, durable write, list.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep {

// flags as in open(2); O_CLOEXEC is added. mode is for a file that is created.
Result<Fd> open_file(const std::filesystem::path& path, int flags, unsigned mode = 0600);
// The whole file. Refuses more than `limit`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit = 64u << 20);
// Replaces the file in one step and durably: temporary file, fsync, rename, fsync of the folder.
Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        unsigned mode = 0600);
// Creates all parents too, with mode 0700.
Result<void> make_folders(const std::filesystem::path& path);
// The paths in the folder, sorted; Code::not_found if there is no such folder.
Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& path);
// fsync of a folder, which makes renames in it durable.
Result<void> sync_folder(const std::filesystem::path& path);

}  // namespace lockstep
