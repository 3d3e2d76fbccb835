// GangScopes: where gangs of a shape may be placed on the hosts of a table, by the size of the
// hosts and by which of them are open. Allocations do not count.
#pragma once

#include "platform/core/sched/capacity/free_capacity.h"

namespace lockstep::sched {

class GangScopes {
 public:
  explicit GangScopes(const HostTable& table) : empty_(table), open_(empty_) {}  // outlives it

  PlacementScope scope_of(const Shape& shape) const;
  // Sets whether the host takes runs from now on.
  void set_host_open(int host, bool open) { open ? open_.open(host) : open_.close(host); }

 private:
  const FreeCapacity empty_;  // all hosts open
  FreeCapacity open_;         // closed hosts are closed
};

}  // namespace lockstep::sched
