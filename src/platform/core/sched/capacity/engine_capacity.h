// EngineCapacity: which runs the EngineHosts could hold, and how many runs their engine may have.
// The engine alone knows which of their devices are free.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "platform/core/sched/capacity/device_allocator.h"
#include "platform/core/sched/capacity/gang_scopes.h"

namespace lockstep::sched {

class EngineCapacity {
 public:
  explicit EngineCapacity(const EngineHosts& hosts)
      : runs_max_(hosts.runs_max),
        table_(engine_host_table(HostTable(hosts.map))),
        hosts_(table_),
        scopes_(table_) {}
  EngineCapacity(const EngineCapacity&) = delete;  // its members refer to one another
  EngineCapacity& operator=(const EngineCapacity&) = delete;

  int runs_max() const { return runs_max_; }
  const HostTable& table() const { return table_; }
  bool has(std::string_view host) const { return table_.find(host).has_value(); }
  const DeviceAllocator& hosts() const { return hosts_; }  // for their states: all is free
  PlacementScope scope_of(const Shape& shape) const { return scopes_.scope_of(shape); }

  void set_host_state(int host, model::HostState state, std::string why) {
    hosts_.set_host_state(host, state, std::move(why));
    scopes_.set_host_open(host, hosts_.is_open(host));
  }

 private:
  const int runs_max_;
  const HostTable table_;
  DeviceAllocator hosts_;
  GangScopes scopes_;
};

}  // namespace lockstep::sched
