#include "platform/agent/watch/memory_kills.h"

#include <utility>

#include "base/os/files.h"

namespace lockstep::agent {
namespace {

constexpr Bytes kRounding = 1_MiB;  // Slurm's limits are multiples of it

}  // namespace

MemoryKills MemoryKills::of_own_cgroup(Bytes stated) {
  return {memory_group_of(read_file("/proc/self/cgroup").value_or(""), kCgroupRoot), stated};
}

MemoryKills::MemoryKills(MemoryGroup group, Bytes stated)
    : group_(std::move(group)), stated_(stated), last_(group_.kills()) {}

bool MemoryKills::increased() {
  const std::int64_t before = std::exchange(last_, group_.kills());
  return last_ > before;
}

Bytes MemoryKills::node_limit() const {
  const bool is_of_node = group_.limit > Bytes(0) && group_.limit <= stated_ + kRounding;
  return is_of_node ? stated_ : Bytes(0);
}

}  // namespace lockstep::agent
