#include "base/os/program_copy.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <link.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Every image with programs for glibc has them; two versions of them in a process do not work.
constexpr std::array<std::string_view, 8> kLibrariesOfSystem = {
    "libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux", "libgcc_s.", "libstdc++."};

constexpr auto kModeOfCopies = fs::perms::owner_all | fs::perms::group_read |
                               fs::perms::group_exec | fs::perms::others_read |
                               fs::perms::others_exec;

bool belongs_to_system(const std::string& name) {
  return std::ranges::any_of(kLibrariesOfSystem,
                             [&](std::string_view begin) { return name.starts_with(begin); });
}

int add_library(dl_phdr_info* info, std::size_t, void* into) {
  const fs::path file = info->dlpi_name;
  if (file.is_absolute() && !belongs_to_system(file.filename().string()))
    static_cast<std::vector<fs::path>*>(into)->push_back(file);
  return 0;
}

Result<void> copy_as(const fs::path& source, const fs::path& file) {
  if (file.has_parent_path()) TRY(make_folders(file.parent_path()));
  fs::path unfinished = file;
  unfinished += ".new";
  std::error_code failed;
  fs::copy_file(source, unfinished, fs::copy_options::overwrite_existing, failed);
  if (!failed) fs::permissions(unfinished, kModeOfCopies, failed);
  if (!failed) fs::rename(unfinished, file, failed);
  if (!failed) return {};
  return Error{Code::unavailable,
               format("copying {} to {}: {}", source.string(), file.string(), failed.message())};
}

}  // namespace

Result<void> copy_own_program(const fs::path& file) { return copy_as("/proc/self/exe", file); }

Result<void> copy_own_installation(const fs::path& folder) {
  TRY(copy_own_program(folder / "bin" / "lockstep"));
  std::vector<fs::path> libraries;
  ::dl_iterate_phdr(add_library, &libraries);
  for (const fs::path& library : libraries)
    TRY(copy_as(library, folder / "lib" / library.filename()));
  for (const char* name : {"bin", "lib"}) {
    TRY(make_folders(folder / name));
    std::error_code failed;
    fs::permissions(folder / name, kModeOfCopies, failed);
    if (failed)
      return Error{Code::unavailable, format("opening {} to all users: {}",
                                             (folder / name).string(), failed.message())};
  }
  return {};
}

}  // namespace lockstep
