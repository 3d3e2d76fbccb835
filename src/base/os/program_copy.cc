#include "base/os/program_copy.h"

#include <system_error>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep {

Result<void> copy_own_program(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  constexpr auto kMode = fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                         fs::perms::others_read | fs::perms::others_exec;
  if (file.has_parent_path()) TRY(make_folders(file.parent_path()));
  fs::path unfinished = file;
  unfinished += ".new";
  std::error_code failed;
  fs::copy_file("/proc/self/exe", unfinished, fs::copy_options::overwrite_existing, failed);
  if (!failed) fs::permissions(unfinished, kMode, failed);
  if (!failed) fs::rename(unfinished, file, failed);
  if (!failed) return {};
  return Error{Code::unavailable,
               format("copying this program to {}: {}", file.string(), failed.message())};
}

}  // namespace lockstep
