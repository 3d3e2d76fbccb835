#include "platform/engine/slurm/shared_program.h"

#include <system_error>

#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/os/program_copy.h"

namespace lockstep::engine {

// The version is that of the file: its size, and the time at which it was built.
Result<std::filesystem::path> share_own_program(const std::filesystem::path& home) {
  namespace fs = std::filesystem;
  constexpr const char* kSource = "/proc/self/exe";
  struct stat own{};
  if (::stat(kSource, &own) != 0) return os_error(format("reading {}", kSource), errno);
  const fs::path folder =
      home / "bin" /
      format("{:x}-{:x}{:09x}", own.st_size, own.st_mtim.tv_sec, own.st_mtim.tv_nsec);
  fs::path program = folder / "lockstep";
  std::error_code failed;
  if (fs::exists(program, failed)) return program;
  TRY(copy_own_program(program));
  return program;
}

}  // namespace lockstep::engine
