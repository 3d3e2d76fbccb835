#include "platform/server/metrics/process_facts.h"

#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

#include "base/os/files.h"

namespace lockstep::server {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The second field of statm: resident pages.
std::optional<std::int64_t> resident_bytes() {
  const auto statm = read_file("/proc/self/statm");
  if (!statm) return std::nullopt;
  std::istringstream fields(*statm);
  std::int64_t size = 0, resident = 0;
  if (!(fields >> size >> resident)) return std::nullopt;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::optional<std::int64_t> open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  return std::distance(begin(files), end(files)) - 1;  // without the one that reads the folder
}

}  // namespace

ProcessFacts process_facts() {
  ProcessFacts facts{.resident_bytes = resident_bytes(), .open_files = open_files()};
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    facts.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.files_max = static_cast<std::int64_t>(limit.rlim_cur);
  return facts;
}

}  // namespace lockstep::server
