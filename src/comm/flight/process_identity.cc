#include "comm/flight/process_identity.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::comm {
namespace {

// The index in /proc/PID/stat after the program's name, which may contain any character. The state
// is field 0.
constexpr int kStartField = 19;

}  // namespace

std::uint64_t process_start(pid_t pid) {
  const auto status = read_file(format("/proc/{}/stat", pid), 4096);
  if (!status) return 0;
  auto fields = std::string_view(*status);
  fields.remove_prefix(std::min(fields.rfind(')'), fields.size()));
  if (fields.starts_with(") Z")) return 0;
  for (int field = -1; field < kStartField; ++field)
    fields.remove_prefix(std::min(fields.find(' ') + 1, fields.size()));
  std::uint64_t start = 0;
  std::from_chars(fields.data(), fields.data() + fields.size(), start);
  return start;
}

std::string pid_space() {
  auto boot = read_file("/proc/sys/kernel/random/boot_id", 4096);
  struct stat space{};
  if (!boot || ::stat("/proc/self/ns/pid", &space) != 0) return {};
  while (!boot->empty() && boot->back() == '\n') boot->pop_back();
  return format("{}:{}", *boot, space.st_ino);
}

}  // namespace lockstep::comm
