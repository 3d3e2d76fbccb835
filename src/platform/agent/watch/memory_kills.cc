#include "platform/agent/watch/memory_kills.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "base/os/files.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kMemoryController = ":memory:";
constexpr std::string_view kUnified = "0::";
constexpr std::string_view kCounterName = "oom_kill ";

std::string_view line_with(std::string_view text, std::string_view part) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find(part) != line.npos) return line;
    begin = end + 1;
  }
  return {};
}

// In a container, the path of the cgroup may be that outside: then its root is mounted.
std::filesystem::path existing(const std::filesystem::path& root, std::string_view path,
                               const char* file) {
  while (path.starts_with('/')) path.remove_prefix(1);
  std::error_code ignored;
  for (const auto& folder : {root / path, root})
    if (std::filesystem::exists(folder / file, ignored)) return folder / file;
  return {};
}

}  // namespace

// Version 1 has a hierarchy for the memory alone, also beside that of version 2.
std::filesystem::path memory_kill_counter(std::string_view cgroups,
                                          const std::filesystem::path& root) {
  if (const auto line = line_with(cgroups, kMemoryController); !line.empty())
    return existing(root / "memory",
                    line.substr(line.find(kMemoryController) + kMemoryController.size()),
                    "memory.oom_control");
  const auto line = line_with(cgroups, kUnified);
  if (!line.starts_with(kUnified)) return {};
  return existing(root, line.substr(kUnified.size()), "memory.events");
}

MemoryKills MemoryKills::of_own_cgroup() {
  return MemoryKills(
      memory_kill_counter(read_file("/proc/self/cgroup").value_or(""), "/sys/fs/cgroup"));
}

MemoryKills::MemoryKills(std::filesystem::path counter)
    : counter_(std::move(counter)), last_(count()) {}

bool MemoryKills::increased() {
  const std::int64_t before = std::exchange(last_, count());
  return last_ > before;
}

std::int64_t MemoryKills::count() const {
  if (counter_.empty()) return 0;
  const std::string text = read_file(counter_).value_or("");
  const std::string_view line = line_with(text, kCounterName);
  std::int64_t number = 0;
  if (line.starts_with(kCounterName))
    std::from_chars(line.data() + kCounterName.size(), line.data() + line.size(), number);
  return number;
}

}  // namespace lockstep::agent
