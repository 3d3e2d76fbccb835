// Room: how many devices are free on each host, and so in each pod, without saying which. Cheap to
// copy: what will be free later is reckoned on a copy.
//
// Kept as, for each pod and number of devices d, how many hosts have at least d free: whether a
// gang fits into a pod is one look, and a host that changes by d costs d steps.
//
// A host that is closed, or that does not meet what the room was narrowed to, has nothing free for
// whoever looks; what is taken and given there counts once it is seen again.
#pragma once

#include <vector>

#include "base/check.h"
#include "platform/core/sched/host_table.h"

namespace lockstep {

class Room {
 public:
  explicit Room(const HostTable& table);  // all is free; the table outlives it

  void take(int host, const Load& load) { change(host, load, -1); }
  void give(int host, const Load& load) { change(host, load, 1); }
  void close(int host) { set_closed(host, true); }
  void open(int host) { set_closed(host, false); }
  // Only hosts that can hold one more node with these needs are seen from now on.
  void narrow(const Needs& needs);

  bool is_seen(int host) const { return shows(host); }
  // The host's row will be changed soon.
  void fetch(int host) const { __builtin_prefetch(&free_[as_index(host)]); }
  // Seen or not.
  bool has_free(int host, int devices) const { return free_[as_index(host)] >= devices; }
  int free(int host) const { return shows(host) ? free_[as_index(host)] : 0; }
  int free_in_all() const { return free_in_all_; }
  // Hosts of the pod with at least so many free devices, or exactly as many; of all pods.
  int hosts_with(int pod, int devices) const {
    return devices > table_->most_devices ? 0 : with_[cell(pod, devices)];
  }
  int hosts_with_exactly(int pod, int devices) const {
    return hosts_with(pod, devices) - hosts_with(pod, devices + 1);
  }
  int all_hosts_with(int devices) const { return hosts_with(table_->pod_count(), devices); }
  // Hosts of the pod of which no device is taken.
  int empty_hosts(int pod) const { return empty_[as_index(pod)]; }

  bool fits_in_pod(const Shape& shape, int pod) const {
    return hosts_with(pod, shape.devices) >= shape.nodes &&
           (shape.remainder == 0 || hosts_with(pod, shape.remainder) > shape.nodes);
  }
  bool fits_over_pods(const Shape& shape) const { return fits_in_pod(shape, table_->pod_count()); }
  // In a room that is narrowed to the gang's needs, if it has any.
  bool fits(const Gang& gang) const;
  const HostTable& table() const { return *table_; }

 private:
  // The row behind those of the pods is that of the whole map.
  std::size_t cell(int pod, int devices) const {
    return as_index(pod) * as_index(table_->most_devices + 1) + as_index(devices);
  }
  bool shows(int host) const {
    return (closed_.empty() || !closed_[as_index(host)]) && (!narrowed_ || meets(host));
  }
  bool meets(int host) const;
  // Inline: a reservation changes hundreds of hosts.
  void change(int host, const Load& load, int sign) {
    const int before = free(host);
    int& now = free_[as_index(host)];
    now += sign * load.devices;
    LS_CHECK(now >= 0 && now <= table_->capacity[as_index(host)]);
    if (load.cores > 0 || load.memory > Bytes(0)) change_taken(host, load, sign);
    recount(host, before);
  }
  void change_taken(int host, const Load& load, int sign);
  void set_closed(int host, bool closed);
  // So many of its devices were seen to be free.
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
    int* with = &with_[cell(pod, 0)];
    for (int d = before + 1; d <= after; ++d) ++with[d];
    for (int d = after + 1; d <= before; ++d) --with[d];
  }

  const HostTable* table_;
  std::vector<int> free_;     // by host
  std::vector<char> closed_;  // by host; empty as long as none ever was
  std::vector<int> empty_;    // by pod
  std::vector<int> with_;     // by cell
  int free_in_all_ = 0;       // of those seen
  // By host; what is taken by runs that asked for it. Empty as long as nobody has: most never do.
  std::vector<Load> taken_;
  bool narrowed_ = false;
  Needs needs_{};  // if it is
};

// As a run with these needs sees it.
inline Room seen_by(const Needs& needs, Room room) {
  room.narrow(needs);
  return room;
}

// Where a gang of the shape may be on a map that is empty, as it sees it.
Reach reach_of(const Room& empty, const Shape& shape);

}  // namespace lockstep
