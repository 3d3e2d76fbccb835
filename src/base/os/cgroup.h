// Control groups of Linux: limits of memory, CPU time and processes for a program and all that it
// starts. Version 2 has one hierarchy of groups. Version 1 has one for each controller. A machine
// has either, or version 1 with a hierarchy of version 2 that has no controllers.
//
// Only root makes groups here. A group of a killed owner stays until remove() ends it: its name
// tells whose it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

inline constexpr auto kCgroupRoot = "/sys/fs/cgroup";

struct CgroupLimits {
  Bytes memory{};     // zero: no limit
  int cores = 0;      // CPU time of so many; zero: no limit
  int processes = 0;  // with threads; zero: no limit
};

// The groups below one folder of each hierarchy, such as "lockstep/INSTALLATION".
class CgroupFolder {
 public:
  // Makes the folder, with the controllers that the machine has. Code::not_found: no hierarchy is
  // mounted, or it has none of the three controllers. Code::denied: this process may make no group.
  static Result<CgroupFolder> open(const std::filesystem::path& root, const std::string& name);

  // The limits for which there is no controller: "memory", "cpu", "pids".
  std::vector<std::string_view> missing() const;
  // Makes the group if it is not there, and sets its limits. Returns the files to join it with
  // (ProcessSpec::cgroups).
  Result<std::vector<std::filesystem::path>> make(const std::string& group,
                                                  const CgroupLimits& limits) const;
  // The names of all groups, sorted.
  std::vector<std::string> list() const;
  // Ends the processes of the group by SIGKILL and removes it. Code::unavailable: they have not
  // ended yet; try again.
  Result<void> remove(const std::string& group) const;

 private:
  // One of version 1 for each controller, or one of version 2 for all.
  struct Hierarchy {
    std::filesystem::path folder;
    std::vector<std::string_view> controllers;
  };

  CgroupFolder(std::vector<Hierarchy> hierarchies, bool is_unified);
  Result<void> set_limit(const std::filesystem::path& group, std::string_view controller,
                         const CgroupLimits& limits) const;

  std::vector<Hierarchy> hierarchies_;
  bool is_unified_;  // version 2
};

// The memory of the group that a process is in.
struct MemoryGroup {
  std::filesystem::path kill_counter;  // the file with a line "oom_kill N"; empty: there is none
  Bytes limit{};                       // the smallest of the group and those above; zero: none

  // Processes of the group that the kernel has ended for lack of memory.
  std::int64_t kills() const;
};
// `cgroups`: the text of /proc/PID/cgroup.
MemoryGroup memory_group_of(std::string_view cgroups, const std::filesystem::path& root);

}  // namespace lockstep
