#include "base/os/cgroup.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kControllers[] = {"memory", "cpu", "pids"};
constexpr std::int64_t kPeriod = 100'000;  // microseconds
constexpr std::string_view kMemoryController = ":memory:";
constexpr std::string_view kUnified = "0::";
constexpr std::string_view kKills = "oom_kill ";
// Version 1 states "no limit" by a number that is about as large.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// In one call: the kernel takes each write as a whole value.
Result<void> write_value(const fs::path& file, std::string_view value) {
  const Fd opened = TRY(open_file(file, O_WRONLY | O_TRUNC));
  if (::write(opened.get(), value.data(), value.size()) == std::ssize(value)) return {};
  return os_error(format("writing {} to {}", value, file.string()), errno);
}

Result<void> make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return os_error("making the control group " + folder.string(), errno);
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || text[at - 1] == ' ') &&
        (end == text.size() || text[end] == ' ' || text[end] == '\n'))
      return true;
  }
  return false;
}

// The folder below the root of a hierarchy. Version 2 gives a group the controllers that all groups
// above it pass on.
Result<fs::path> make_below(const fs::path& root, const std::string& name,
                            const std::string& passed_on) {
  fs::path folder = root;
  for (const fs::path& part : fs::path(name)) {
    if (!passed_on.empty()) TRY(write_value(folder / "cgroup.subtree_control", passed_on));
    folder /= part;
    TRY(make_folder(folder));
  }
  if (!passed_on.empty()) TRY(write_value(folder / "cgroup.subtree_control", passed_on));
  return folder;
}

std::string_view line_with(std::string_view text, std::string_view part) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find(part) != line.npos) return line;
    begin = end + 1;
  }
  return {};
}

// Zero: no limit, or none is known.
Bytes limit_in(const fs::path& file) {
  const std::string text = read_file(file).value_or("");
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number < kNoLimit ? Bytes(number) : Bytes(0);
}

// `path`: of the group below the mounted root. In a container it may be the path outside: then the
// container's own group is mounted as the root.
MemoryGroup memory_group_at(const fs::path& root, std::string_view path, const char* counter,
                            const char* limit) {
  while (path.starts_with('/')) path.remove_prefix(1);
  fs::path folder = path.empty() ? root : root / path;
  if (!is_file(folder / counter)) folder = root;
  if (!is_file(folder / counter)) return {};
  MemoryGroup found{.kill_counter = folder / counter};
  for (;; folder = folder.parent_path()) {
    const Bytes here = limit_in(folder / limit);
    if (here > Bytes(0) && (found.limit == Bytes(0) || here < found.limit)) found.limit = here;
    if (folder == root || folder == folder.parent_path()) return found;
  }
}

}  // namespace

CgroupFolder::CgroupFolder(std::vector<Hierarchy> hierarchies, bool is_unified)
    : hierarchies_(std::move(hierarchies)), is_unified_(is_unified) {}

Result<CgroupFolder> CgroupFolder::open(const fs::path& root, const std::string& name) {
  std::vector<Hierarchy> found;
  const bool is_unified = is_file(root / "cgroup.controllers");
  if (is_unified) {
    const std::string present = TRY(read_file(root / "cgroup.controllers"));
    Hierarchy all{.folder = root, .controllers = {}};
    std::string passed_on;
    for (const std::string_view controller : kControllers) {
      if (!has_word(present, controller)) continue;
      all.controllers.push_back(controller);
      passed_on += format("{}+{}", passed_on.empty() ? "" : " ", controller);
    }
    if (!all.controllers.empty()) {
      all.folder = TRY(make_below(root, name, passed_on));
      found.push_back(std::move(all));
    }
  } else {
    for (const std::string_view controller : kControllers)
      if (is_file(root / controller / "cgroup.procs"))
        found.push_back({TRY(make_below(root / controller, name, "")), {controller}});
  }
  if (!found.empty()) return CgroupFolder(std::move(found), is_unified);
  return Error{Code::not_found,
               format("{} has no control groups of memory, CPU or processes", root.string())};
}

std::vector<std::string_view> CgroupFolder::missing() const {
  std::vector<std::string_view> names;
  for (const std::string_view controller : kControllers)
    if (std::ranges::none_of(hierarchies_, [&](const Hierarchy& hierarchy) {
          return std::ranges::find(hierarchy.controllers, controller) !=
                 hierarchy.controllers.end();
        }))
      names.push_back(controller);
  return names;
}

Result<void> CgroupFolder::set_limit(const fs::path& group, std::string_view controller,
                                     const CgroupLimits& limits) const {
  if (controller == "memory" && limits.memory > Bytes(0)) {
    const std::string value = format("{}", limits.memory.count());
    TRY(write_value(group / (is_unified_ ? "memory.max" : "memory.limit_in_bytes"), value));
    // No swap beside it, where the kernel can limit that.
    const fs::path swap = group / (is_unified_ ? "memory.swap.max" : "memory.memsw.limit_in_bytes");
    return is_file(swap) ? write_value(swap, is_unified_ ? "0" : value) : Result<void>();
  }
  if (controller == "cpu" && limits.cores > 0) {
    const std::int64_t quota = limits.cores * kPeriod;
    if (is_unified_) return write_value(group / "cpu.max", format("{} {}", quota, kPeriod));
    TRY(write_value(group / "cpu.cfs_period_us", format("{}", kPeriod)));
    return write_value(group / "cpu.cfs_quota_us", format("{}", quota));
  }
  if (controller == "pids" && limits.processes > 0)
    return write_value(group / "pids.max", format("{}", limits.processes));
  return {};
}

Result<std::vector<fs::path>> CgroupFolder::make(const std::string& group,
                                                 const CgroupLimits& limits) const {
  std::vector<fs::path> to_join;
  for (const Hierarchy& hierarchy : hierarchies_) {
    const fs::path folder = hierarchy.folder / group;
    TRY(make_folder(folder));
    for (const std::string_view controller : hierarchy.controllers)
      TRY(set_limit(folder, controller, limits));
    to_join.push_back(folder / "cgroup.procs");
  }
  return to_join;
}

std::vector<std::string> CgroupFolder::list() const {
  std::vector<std::string> names;
  for (const Hierarchy& hierarchy : hierarchies_)
    for (const fs::path& path : list_folder(hierarchy.folder).value_or(std::vector<fs::path>())) {
      std::error_code ignored;
      if (fs::is_directory(path, ignored)) names.push_back(path.filename().string());
    }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

Result<void> CgroupFolder::remove(const std::string& group) const {
  bool is_busy = false;
  for (const Hierarchy& hierarchy : hierarchies_) {
    const fs::path folder = hierarchy.folder / group;
    if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) continue;
    if (errno != EBUSY && errno != ENOTEMPTY)
      return os_error("removing the control group " + folder.string(), errno);
    is_busy = true;
    const std::string processes = read_file(folder / "cgroup.procs").value_or("");
    for (std::string_view rest = processes; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      pid_t pid = 0;
      std::from_chars(rest.data(), rest.data() + end, pid);
      if (pid > 1) ::kill(pid, SIGKILL);
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
  }
  if (!is_busy) return {};
  return Error{Code::unavailable, format("processes of the control group {} are ending", group)};
}

std::int64_t MemoryGroup::kills() const {
  if (kill_counter.empty()) return 0;
  const std::string text = read_file(kill_counter).value_or("");
  const std::string_view line = line_with(text, kKills);
  std::int64_t number = 0;
  if (line.starts_with(kKills))
    std::from_chars(line.data() + kKills.size(), line.data() + line.size(), number);
  return number;
}

// Version 1 has a hierarchy for the memory alone, also beside that of version 2.
MemoryGroup memory_group_of(std::string_view cgroups, const fs::path& root) {
  if (const auto line = line_with(cgroups, kMemoryController); !line.empty())
    return memory_group_at(root / "memory",
                           line.substr(line.find(kMemoryController) + kMemoryController.size()),
                           "memory.oom_control", "memory.limit_in_bytes");
  const auto line = line_with(cgroups, kUnified);
  if (!line.starts_with(kUnified)) return {};
  return memory_group_at(root, line.substr(kUnified.size()), "memory.events", "memory.max");
}

}  // namespace lockstep
