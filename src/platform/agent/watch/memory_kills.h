// MemoryKills: processes that the kernel has ended because their cgroup, or the machine, had no
// memory left. A rank among them ends by SIGKILL, as after `kill -9`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::agent {

// The file with the counter of a cgroup: its line "oom_kill N". `cgroups`: the text of
// /proc/self/cgroup; `root`: /sys/fs/cgroup. Empty: there is none.
std::filesystem::path memory_kill_counter(std::string_view cgroups,
                                          const std::filesystem::path& root);

class MemoryKills {
 public:
  // Those in the cgroup of this process, in which its ranks start too.
  static MemoryKills of_own_cgroup();
  explicit MemoryKills(std::filesystem::path counter);

  // True if there were some since the last call, or since the construction.
  bool increased();

 private:
  std::int64_t count() const;

  std::filesystem::path counter_;  // empty: unknown
  std::int64_t last_ = 0;
};

}  // namespace lockstep::agent
