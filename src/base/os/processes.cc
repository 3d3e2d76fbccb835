#include "base/os/processes.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/files.h"

namespace lockstep {
namespace {

std::optional<pid_t> pid_of(std::string_view name) {
  pid_t pid = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

std::uint64_t number_of(std::string_view word) {
  std::uint64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

Duration time_of_ticks(std::uint64_t ticks) {
  static const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::milliseconds(ticks * 1000 / per_second);
}

// PF_EXITING of the kernel's flags of a task.
constexpr std::uint64_t kExiting = 0x4;

// Numbered as in proc(5), starting with the third field, the state.
std::vector<std::string_view> fields_of(std::string_view input) {
  std::vector<std::string_view> fields;
  while (!input.empty()) {
    const auto end = std::min(input.find_first_of(" \n"), input.size());
    if (end > 0) fields.push_back(input.substr(0, end));
    input.remove_prefix(std::min(input.size(), end + 1));
  }
  return fields;
}

// "123 (name) S 1 123 ...": the name may hold blanks and parentheses, so read from the last one.
std::optional<Process> parse_stat(pid_t pid, std::string_view input) {
  const auto name_end = input.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const auto fields = fields_of(input.substr(name_end + 1));
  if (fields.size() < 48) return std::nullopt;
  const auto field = [&](std::size_t number) { return fields[number - 3]; };
  const Process process{.pid = pid,
                        .parent = static_cast<pid_t>(number_of(field(4))),
                        .group = static_cast<pid_t>(number_of(field(5))),
                        .session = static_cast<pid_t>(number_of(field(6))),
                        .state = field(3).front(),
                        .started = number_of(field(22)),
                        .cpu_time = time_of_ticks(number_of(field(14)) + number_of(field(15)) +
                                                  number_of(field(16)) + number_of(field(17))),
                        .is_ending = (number_of(field(9)) & kExiting) != 0,
                        .environment = number_of(field(50))};
  if (process.state == 'Z' || process.state == 'X') return std::nullopt;
  return process;
}

// By pid.
template <class Counts>
std::vector<Process> list_processes(Counts&& counts) {
  std::vector<Process> found;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (dirent* entry = folder ? ::readdir(folder.get()) : nullptr)
    if (const auto pid = pid_of(entry->d_name); pid && counts(*pid))
      if (auto process = find_process(*pid)) found.push_back(*process);
  std::ranges::sort(found, {}, &Process::pid);
  return found;
}

}  // namespace

std::optional<Process> find_process(pid_t pid) {
  auto content = read_file(format("/proc/{}/stat", pid));
  return content ? parse_stat(pid, *content) : std::nullopt;
}

std::vector<Process> processes_of_user() {
  return list_processes([](pid_t pid) {
    struct stat status{};
    return ::stat(format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == ::geteuid();
  });
}

std::vector<Process> all_processes() {
  return list_processes([](pid_t) { return true; });
}

std::string schedule_stats_of(pid_t pid) {
  return read_file(format("/proc/{}/task/{}/schedstat", pid, pid)).value_or("");
}

std::optional<std::string> environment_variable_of(pid_t pid, std::string_view variable) {
  auto content = read_file(format("/proc/{}/environ", pid));
  if (!content) return std::nullopt;
  for (std::string_view rest = *content; !rest.empty();) {
    std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.size() > variable.size() && entry.starts_with(variable) &&
        entry[variable.size()] == '=')
      return std::string(entry.substr(variable.size() + 1));
  }
  return std::nullopt;
}

std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor) {
  std::set<pid_t> family = {ancestor};
  // Pids wrap around, so a child may be listed before its parent: repeat until nothing is added.
  for (std::size_t before = 0; before != family.size();) {
    before = family.size();
    for (const Process& process : all)
      if (family.contains(process.parent)) family.insert(process.pid);
  }
  family.erase(ancestor);
  std::vector<Process> found;
  for (const Process& process : all)
    if (family.contains(process.pid)) found.push_back(process);
  return found;
}

}  // namespace lockstep
