#include "platform/core/sched/reservation.h"

#include <algorithm>
#include <utility>

#include "platform/core/sched/place.h"

namespace lockstep {

// An earlier head comes, or goes.
struct Reservation::Change {
  Time at{};
  int sign = 0;  // of what it does to the room
  Shape shape;
  std::vector<int> hosts;
};

Reservation::Reservation(const Room& room, const Gang& head, Duration limit, Holders& holders,
                         std::span<const Reservation> earlier)
    : room_(room), head_(head), limit_(limit) {
  room_.narrow(head.shape.needs);
  const auto changes = changes_by(earlier);
  const auto& ends = holders.by_end();
  std::size_t end = 0, next = 0;
  do {
    LS_CHECK(end < ends.size() || next < changes.size());  // it fits when all are gone
    const bool by_holder =
        next == changes.size() || (end < ends.size() && ends[end].time <= changes[next].at);
    start_ = by_holder ? ends[end].time : changes[next].at;
    blocker_.reset();
    // All of this moment: who comes then comes after who goes.
    for (; end < ends.size() && ends[end].time == start_; ++end) {
      const bool fitted = head_fits();
      release(*ends[end].holder);
      if (!fitted && head_fits()) blocker_ = ends[end].holder->run;
    }
    for (; next < changes.size() && changes[next].at <= start_; ++next)
      for (std::size_t i = 0; i < changes[next].hosts.size(); ++i)
        change(changes[next].hosts[i], load_on(changes[next].shape, i), changes[next].sign);
  } while (!head_fits());
}

std::vector<Reservation::Change> Reservation::changes_by(
    std::span<const Reservation> earlier) const {
  std::vector<Change> changes;
  for (const Reservation& one : earlier) {
    const auto hosts = choose_hosts(one.room_, one.head_, Fit::best);
    changes.push_back({one.start_, -1, one.head_.shape, hosts});
    changes.push_back({one.start_ + one.limit_, 1, one.head_.shape, hosts});
  }
  std::ranges::stable_sort(changes, {},
                           [](const Change& change) { return std::pair(change.at, -change.sign); });
  return changes;
}

bool Reservation::spare(const Shape& shape, std::span<const int> hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], load_on(shape, i), -1);
  if (head_fits()) return true;
  unspare(shape, hosts);
  return false;
}

void Reservation::unspare(const Shape& shape, std::span<const int> hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], load_on(shape, i), 1);
}

void Reservation::change(int host, const Load& load, int sign) {
  const int pod = room_.table().pod_of[as_index(host)];
  fitting_pods_ -= int{room_.fits_in_pod(head_.shape, pod)};
  if (sign < 0)
    room_.take(host, load);
  else
    room_.give(host, load);
  fitting_pods_ += int{room_.fits_in_pod(head_.shape, pod)};
}

bool Reservation::head_fits() const {
  return head_.reach == Reach::pods ? room_.fits_over_pods(head_.shape) : fitting_pods_ > 0;
}

void Reservation::release(const Holder& holder) {
  for (const Taken& taken : holder.taken) change(taken.host, load_of(taken), 1);
}

}  // namespace lockstep
