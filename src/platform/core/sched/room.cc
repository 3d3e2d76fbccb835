#include "platform/core/sched/room.h"

#include "base/check.h"

namespace lockstep {

Room::Room(const HostTable& table)
    : table_(&table),
      free_(table.capacity),
      seen_(as_index(table.host_count()), 0),
      closed_(as_index(table.host_count()), 0),
      empty_(as_index(table.pod_count()), 0),
      with_(as_index(table.pod_count() + 1) * as_index(table.most_devices + 1), 0) {
  for (int pod = 0; pod < table.pod_count(); ++pod)
    with_[cell(pod, 0)] = table.pods[as_index(pod)].end - table.pods[as_index(pod)].first;
  with_[cell(table.pod_count(), 0)] = table.host_count();
  for (int host = 0; host < table.host_count(); ++host) look_again(host);
}

void Room::close(int host) {
  closed_[as_index(host)] = 1;
  look_again(host);
}

void Room::open(int host) {
  closed_[as_index(host)] = 0;
  look_again(host);
}

void Room::narrow(const Needs& needs) {
  if (!narrowed_ && needs == Needs{}) return;
  narrowed_ = true;
  needs_ = needs;
  for (int host = 0; host < table_->host_count(); ++host) look_again(host);
}

bool Room::meets(int host) const {
  const HostTable::Traits& has = table_->traits[as_index(host)];
  const Load taken = taken_.empty() ? Load{} : taken_[as_index(host)];
  return (!needs_.kind || needs_.kind == has.kind) && needs_.device_memory <= has.device_memory &&
         needs_.cores <= has.cores - taken.cores && needs_.memory <= has.memory - taken.memory;
}

void Room::change(int host, const Load& load, int sign) {
  int& free = free_[as_index(host)];
  free += sign * load.devices;
  LS_CHECK(free >= 0 && free <= table_->capacity[as_index(host)]);
  if (load.cores > 0 || load.memory > Bytes(0)) {
    if (taken_.empty()) taken_.resize(free_.size());
    taken_[as_index(host)].cores -= sign * load.cores;
    taken_[as_index(host)].memory -= sign * load.memory;
  }
  look_again(host);
}

void Room::look_again(int host) {
  const int before = seen_[as_index(host)];
  const int after = shows(host) ? free_[as_index(host)] : 0;
  if (before == after) return;
  const int capacity = table_->capacity[as_index(host)];
  const int pod = table_->pod_of[as_index(host)];
  count(pod, before, after);
  count(table_->pod_count(), before, after);
  empty_[as_index(pod)] += int{after == capacity} - int{before == capacity};
  seen_[as_index(host)] = after;
  free_in_all_ += after - before;
}

void Room::count(int pod, int before, int after) {
  for (int d = before + 1; d <= after; ++d) ++with_[cell(pod, d)];
  for (int d = after + 1; d <= before; ++d) --with_[cell(pod, d)];
}

bool Room::fits(const Gang& gang) const {
  if (!can_be_placed(gang.reach)) return false;
  if (gang.reach == Reach::pods) return fits_over_pods(gang.shape);
  for (int pod = 0; pod < table_->pod_count(); ++pod)
    if (fits_in_pod(gang.shape, pod)) return true;
  return false;
}

Reach reach_of(const Room& empty, const Shape& shape) {
  if (empty.fits({shape, Reach::pod})) return Reach::pod;
  return empty.fits_over_pods(shape) ? Reach::pods : Reach::nowhere;
}

}  // namespace lockstep
