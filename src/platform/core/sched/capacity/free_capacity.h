// FreeCapacity: how many devices are free on each host and in each pod, without their indices. It
// is cheap to copy: predictions of future capacity use a copy.
//
// Stored as the number of hosts with at least d free devices, for each pod and d. So a check
// whether a gang fits into a pod is one lookup, and a change of d devices on a host costs d steps.
//
// A host that is closed, does not meet restrict_to(), or has taints that the needs given there do
// not tolerate, appears to have nothing free. Allocations
// and releases on it are still counted, and show once it is eligible again.
#pragma once

#include <vector>

#include "base/check.h"
#include "platform/core/sched/capacity/host_table.h"

namespace lockstep::sched {

class FreeCapacity {
 public:
  explicit FreeCapacity(const HostTable& table);  // all is free; the table must outlive it

  void subtract(int host, const NodeResources& load) { change(host, load, -1); }
  void add_back(int host, const NodeResources& load) { change(host, load, 1); }
  void close(int host) { set_closed(host, true); }
  void open(int host) { set_closed(host, false); }
  // From now on only hosts that can hold one more node with these needs are eligible.
  void restrict_to(const model::Needs& needs);

  bool is_eligible(int host) const { return counts_host(host); }
  // Also counts hosts that are not eligible.
  bool has_free(int host, int devices) const { return free_[as_index(host)] >= devices; }
  int free(int host) const { return counts_host(host) ? free_[as_index(host)] : 0; }
  int free_in_all() const { return free_in_all_; }
  // The number of hosts in the pod, or in all pods, with at least or exactly so many free devices.
  int hosts_with(int pod, int devices) const {
    return devices > table_->devices_per_host_max ? 0 : host_counts_[cell(pod, devices)];
  }
  int hosts_with_exactly(int pod, int devices) const {
    return hosts_with(pod, devices) - hosts_with(pod, devices + 1);
  }
  int all_hosts_with(int devices) const { return hosts_with(table_->pod_count(), devices); }
  // Hosts of the pod without any allocated device.
  int empty_hosts(int pod) const { return empty_[as_index(pod)]; }

  bool fits_in_pod(const Shape& shape, int pod) const {
    return hosts_with(pod, shape.devices) >= shape.nodes &&
           (shape.remainder == 0 || hosts_with(pod, shape.remainder) > shape.nodes);
  }
  bool fits_over_pods(const Shape& shape) const {
    return table_->spreads && fits_in_pod(shape, table_->pod_count());
  }
  // The capacity must be restricted to the gang's needs, if it has any.
  bool fits(const Gang& gang) const;
  const HostTable& table() const { return *table_; }

 private:
  // The row after those of the pods is that of the whole map.
  std::size_t cell(int pod, int devices) const {
    return as_index(pod) * as_index(table_->devices_per_host_max + 1) + as_index(devices);
  }
  bool counts_host(int host) const {
    return (closed_.empty() || !closed_[as_index(host)]) &&
           (restricted_ ? meets_needs(host) : !table_->traits[as_index(host)].has_taints);
  }
  bool meets_needs(int host) const;
  // Inline: a reservation changes hundreds of hosts.
  void change(int host, const NodeResources& load, int sign) {
    const int before = free(host);
    int& now = free_[as_index(host)];
    now += sign * load.devices;
    LS_CHECK(now >= 0 && now <= table_->capacity[as_index(host)]);
    if (load.cores > 0 || load.memory > Bytes(0)) change_taken(host, load, sign);
    recount(host, before);
  }
  void change_taken(int host, const NodeResources& load, int sign);
  void set_closed(int host, bool closed);
  // `before` is what free() returned before the change.
  void recount(int host, int before) {
    const int after = free(host);
    if (before == after) return;
    const int capacity = table_->capacity[as_index(host)];
    const int pod = table_->pod_of[as_index(host)];
    count(pod, before, after);
    count(table_->pod_count(), before, after);
    empty_[as_index(pod)] += int{after == capacity} - int{before == capacity};
    free_in_all_ += after - before;
  }
  void count(int pod, int before, int after) {
    int* with = &host_counts_[cell(pod, 0)];
    for (int d = before + 1; d <= after; ++d) ++with[d];
    for (int d = after + 1; d <= before; ++d) --with[d];
  }

  const HostTable* table_;
  std::vector<int> free_;         // by host
  std::vector<char> closed_;      // by host; empty as long as none ever was
  std::vector<int> empty_;        // by pod
  std::vector<int> host_counts_;  // by cell
  int free_in_all_ = 0;           // on eligible hosts
  // By host; resources of runs that requested them. Empty until the first such run: most have none.
  std::vector<NodeResources> taken_;
  bool restricted_ = false;
  model::Needs needs_{};  // if restricted_
};

// Limited to hosts that meet these needs.
inline FreeCapacity restricted_to(const model::Needs& needs, FreeCapacity capacity) {
  capacity.restrict_to(needs);
  return capacity;
}

// Where a gang of this shape may be placed on a map that is empty, within its eligible hosts.
PlacementScope placement_scope_of(const FreeCapacity& empty, const Shape& shape);

}  // namespace lockstep::sched
