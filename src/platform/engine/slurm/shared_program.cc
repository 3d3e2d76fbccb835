#include "platform/engine/slurm/shared_program.h"

#include <string_view>
#include <system_error>

#include <sys/stat.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "base/os/program_copy.h"

namespace lockstep::engine {
namespace {

constexpr std::string_view kProgramsFolder = "bin";
constexpr std::string_view kProgramFile = "lockstep";
constexpr std::string_view kUnfinishedFile = "lockstep.new";

}  // namespace

// The version is that of the file: its size, and the time at which it was built.
Result<std::filesystem::path> share_own_program(const std::filesystem::path& home) {
  namespace fs = std::filesystem;
  constexpr const char* kSource = "/proc/self/exe";
  struct stat own{};
  if (::stat(kSource, &own) != 0) return os_error(format("reading {}", kSource), errno);
  const fs::path folder =
      home / kProgramsFolder /
      format("{:x}-{:x}{:09x}", own.st_size, own.st_mtim.tv_sec, own.st_mtim.tv_nsec);
  fs::path program = folder / kProgramFile;
  std::error_code failed;
  if (fs::exists(program, failed)) return program;
  TRY(copy_own_program(program));
  return program;
}

// Only the files that this module wrote.
void remove_other_programs(const std::filesystem::path& home, const std::filesystem::path& own) {
  namespace fs = std::filesystem;
  const auto versions = list_folder(home / kProgramsFolder);
  if (!versions) return;
  for (const fs::path& version : *versions) {
    if (version == own.parent_path()) continue;
    std::error_code failed;
    for (const std::string_view file : {kProgramFile, kUnfinishedFile})
      fs::remove(version / file, failed);
    fs::remove(version, failed);
    if (failed) LS_LOG(warning, "removing {}: {}", version.string(), failed.message());
  }
}

}  // namespace lockstep::engine
