// MemoryKills: processes that the kernel has ended because their cgroup, or the machine, had no
// memory left. A rank among them ends by SIGKILL, as after `kill -9`.
#pragma once

#include <cstdint>

#include "base/os/cgroup.h"
#include "base/units.h"

namespace lockstep::agent {

class MemoryKills {
 public:
  // Those in the cgroup of this process, in which its ranks start too. `stated`: the memory that
  // the run asks for each node; zero: nothing.
  static MemoryKills of_own_cgroup(Bytes stated);
  MemoryKills(MemoryGroup group, Bytes stated);

  // True if there were some since the last call, or since the construction.
  bool increased();
  // The stated memory, if the cgroup limits the node to it. Zero: other programs may have filled
  // the memory.
  Bytes node_limit() const;

 private:
  MemoryGroup group_;
  Bytes stated_;
  std::int64_t last_;
};

}  // namespace lockstep::agent
