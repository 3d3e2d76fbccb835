// GangScopes: where gangs of a shape may be placed on the hosts of a table, by the size of the
// hosts and by which of them are open. Allocations do not count.
#pragma once

#include <set>

#include "platform/core/sched/capacity/free_capacity.h"

namespace lockstep::sched {

class GangScopes {
 public:
  // The table outlives it.
  explicit GangScopes(const HostTable& table) : empty_(table), open_(empty_) {
    if (!table.mixes_kinds) kinds_ = table.kinds();
  }

  PlacementScope scope_of(const Shape& shape) const;
  // Sets whether the host takes runs from now on.
  void set_host_open(int host, bool open) { open ? open_.open(host) : open_.close(host); }

 private:
  PlacementScope scope_on_suitable_hosts(const Shape& shape) const;

  std::set<map::DeviceKind> kinds_;  // from which a gang without a kind chooses one
  const FreeCapacity empty_;         // all hosts open
  FreeCapacity open_;                // closed hosts are closed
};

}  // namespace lockstep::sched
