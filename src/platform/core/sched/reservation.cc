#include "platform/core/sched/reservation.h"

#include "platform/core/sched/place.h"

namespace lockstep {

Reservation::Reservation(const Room& room, const Gang& head, Holders& holders)
    : room_(room), head_(head) {
  const auto& ends = holders.by_end();
  std::size_t next = 0;
  while (!head_fits()) {
    LS_CHECK(next < ends.size());  // it fits when all are gone
    release(*ends[next].holder);
    ++next;
  }
  LS_CHECK(next > 0);
  start_ = ends[next - 1].time;
  blocker_ = ends[next - 1].holder->run;
  for (; next < ends.size() && ends[next].time == start_; ++next) release(*ends[next].holder);
}

bool Reservation::spare(const Shape& shape, std::span<const int> hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], -devices_on(shape, i));
  if (head_fits()) return true;
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], devices_on(shape, i));
  return false;
}

void Reservation::change(int host, int by) {
  const int pod = room_.table().pod_of[as_index(host)];
  fitting_pods_ -= int{room_.fits_in_pod(head_.shape, pod)};
  room_.give(host, by);
  fitting_pods_ += int{room_.fits_in_pod(head_.shape, pod)};
}

bool Reservation::head_fits() const {
  return head_.reach == Reach::pods ? room_.fits_over_pods(head_.shape) : fitting_pods_ > 0;
}

void Reservation::release(const Holder& holder) {
  for (const Taken& taken : holder.taken)
    change(taken.host, static_cast<int>(taken.devices.size()));
}

}  // namespace lockstep
