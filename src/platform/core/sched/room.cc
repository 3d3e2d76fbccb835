#include "platform/core/sched/room.h"

#include "base/check.h"

namespace lockstep {

Room::Room(const HostTable& table)
    : table_(&table),
      free_(as_index(table.host_count()), 0),
      empty_(as_index(table.pod_count()), 0),
      with_(as_index(table.pod_count() + 1) * as_index(table.most_devices + 1), 0) {
  for (int pod = 0; pod < table.pod_count(); ++pod)
    with_[cell(pod, 0)] = table.pods[as_index(pod)].end - table.pods[as_index(pod)].first;
  with_[cell(table.pod_count(), 0)] = table.host_count();
  for (int host = 0; host < table.host_count(); ++host) give(host, table.capacity[as_index(host)]);
}

void Room::count(int pod, int before, int after) {
  for (int d = before + 1; d <= after; ++d) ++with_[cell(pod, d)];
  for (int d = after + 1; d <= before; ++d) --with_[cell(pod, d)];
}

void Room::change(int host, int by) {
  const int before = free_[as_index(host)];
  const int after = before + by;
  const int capacity = table_->capacity[as_index(host)];
  LS_CHECK(after >= 0 && after <= capacity);
  const int pod = table_->pod_of[as_index(host)];
  count(pod, before, after);
  count(table_->pod_count(), before, after);
  empty_[as_index(pod)] += int{after == capacity} - int{before == capacity};
  free_[as_index(host)] = after;
  free_in_all_ += by;
}

bool Room::fits(const Gang& gang) const {
  if (gang.reach == Reach::nowhere) return false;
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
