#include "platform/host/machine.h"

#include <array>

#include <unistd.h>

#include "base/os/files.h"

namespace lockstep::host {
namespace {

std::string line_of(const char* path) {
  std::string line = read_file(path, 4096).value_or(std::string());
  return line.substr(0, line.find('\n'));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

Machine this_machine() {
  return {.host = host_name(),
          .id = line_of("/etc/machine-id"),
          .boot = line_of("/proc/sys/kernel/random/boot_id")};
}

}  // namespace lockstep::host
