#include "base/processes.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <set>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

namespace lockstep {
namespace {

std::optional<pid_t> pid_of(std::string_view name) {
  pid_t pid = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

// "123 (name) S 1 123 ...": the name may hold blanks and parentheses, so read from the last one.
std::optional<Process> parse_stat(pid_t pid, const std::string& words) {
  auto name_end = words.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  Process process{.pid = pid};
  if (std::sscanf(words.c_str() + name_end + 1, " %c %d %d", &process.state, &process.parent,
                  &process.group) != 3)
    return std::nullopt;
  if (process.state == 'Z' || process.state == 'X') return std::nullopt;
  return process;
}

std::optional<Process> process_of_user(pid_t pid) {
  std::string folder = format("/proc/{}", pid);
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return std::nullopt;
  auto words = read_file(folder + "/stat");
  return words ? parse_stat(pid, *words) : std::nullopt;
}

template <class Visit>
void for_each_pid(Visit&& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (dirent* entry = folder ? ::readdir(folder.get()) : nullptr)
    if (auto pid = pid_of(entry->d_name)) visit(*pid);
}

}  // namespace

std::vector<Process> processes_of_user() {
  std::vector<Process> all;
  for_each_pid([&](pid_t pid) {
    if (auto process = process_of_user(pid)) all.push_back(*process);
  });
  std::ranges::sort(all, {}, &Process::pid);
  return all;
}

std::optional<std::string> environment_of(pid_t pid, std::string_view variable) {
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

// What is another's, or has ended, shows none.
std::map<pid_t, std::string> processes_with(std::string_view variable) {
  std::map<pid_t, std::string> found;
  for_each_pid([&](pid_t pid) {
    if (auto value = environment_of(pid, variable)) found.emplace(pid, *std::move(value));
  });
  return found;
}

std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor) {
  std::set<pid_t> family = {ancestor};
  // Pids wrap around, so a child may stand before its parent: repeat until nothing is added.
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
