#include "platform/core/sched/room.h"

namespace lockstep {

Room::Room(const HostTable& table)
    : table_(&table),
      free_(table.capacity),
      empty_(as_index(table.pod_count()), 0),
      with_(as_index(table.pod_count() + 1) * as_index(table.most_devices + 1), 0) {
  for (int host = 0; host < table.host_count(); ++host) {
    const int pod = table.pod_of[as_index(host)], capacity = table.capacity[as_index(host)];
    ++with_[cell(pod, capacity)];
    ++with_[cell(table.pod_count(), capacity)];
    empty_[as_index(pod)] += int{capacity > 0};
    free_in_all_ += capacity;
  }
  // So far those with exactly so many.
  for (int pod = 0; pod <= table.pod_count(); ++pod)
    for (int d = table.most_devices; d > 0; --d) with_[cell(pod, d - 1)] += with_[cell(pod, d)];
}

void Room::set_closed(int host, bool closed) {
  if (closed_.empty() && !closed) return;
  if (closed_.empty()) closed_.resize(free_.size(), 0);
  const int before = free(host);
  closed_[as_index(host)] = static_cast<char>(closed);
  recount(host, before);
}

void Room::narrow(const Needs& needs) {
  if (!narrowed_ && needs == Needs{}) return;
  std::vector<int> before;
  before.reserve(free_.size());
  for (int host = 0; host < table_->host_count(); ++host) before.push_back(free(host));
  narrowed_ = true;
  needs_ = needs;
  for (int host = 0; host < table_->host_count(); ++host) recount(host, before[as_index(host)]);
}

bool Room::meets(int host) const {
  const HostTable::Traits& has = table_->traits[as_index(host)];
  const Load taken = taken_.empty() ? Load{} : taken_[as_index(host)];
  return (!needs_.kind || needs_.kind == has.kind) && needs_.device_memory <= has.device_memory &&
         needs_.cores <= has.cores - taken.cores && needs_.memory <= has.memory - taken.memory;
}

void Room::change_taken(int host, const Load& load, int sign) {
  if (taken_.empty()) taken_.resize(free_.size());
  taken_[as_index(host)].cores -= sign * load.cores;
  taken_[as_index(host)].memory -= sign * load.memory;
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
