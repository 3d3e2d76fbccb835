#include "platform/core/sched/reservation.h"

#include <algorithm>
#include <utility>

#include "platform/core/sched/place.h"

namespace lockstep {

namespace {

// Holders lie anywhere in memory: while some are released, those behind them are fetched.
void fetch_holders_ahead(const std::vector<Holders::End>& ends, std::size_t i) {
  constexpr std::size_t kNear = 4, kFar = 8;
  if (i + kFar >= ends.size()) return;
  __builtin_prefetch(&ends[i + kFar].holder->taken);
  __builtin_prefetch(ends[i + kNear].holder->taken.data());
}

}  // namespace

// An earlier head comes, or goes.
struct Reservation::Change {
  Time at{};
  bool comes = false;
  std::size_t head = 0;  // of those earlier
};

Reservation::Reservation(const Room& room, const Gang& head, Duration limit, Holders& holders,
                         std::span<const Reservation> earlier)
    : room_(room), head_(head), limit_(limit) {
  room_.narrow(head.shape.needs);
  const auto changes = changes_by(earlier);
  std::vector<std::vector<int>> places(earlier.size());
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
      fetch_holders_ahead(ends, end);
      const bool fitted = head_fits();
      release(*ends[end].holder);
      if (!fitted && head_fits()) blocker_ = ends[end].holder->run;
    }
    for (; next < changes.size() && changes[next].at <= start_; ++next) {
      const Gang& gang = earlier[changes[next].head].head_;
      auto& hosts = places[changes[next].head];
      if (changes[next].comes)
        hosts = choose_hosts(seen_by(gang.shape.needs, room_), gang, Fit::best);
      for (std::size_t i = 0; i < hosts.size(); ++i)
        change(hosts[i], load_on(gang.shape, i), changes[next].comes ? -1 : 1);
    }
  } while (!head_fits());
}

// In the order of time; who goes before who comes.
std::vector<Reservation::Change> Reservation::changes_by(std::span<const Reservation> earlier) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    changes.push_back({earlier[i].start_, true, i});
    changes.push_back({earlier[i].start_ + earlier[i].limit_, false, i});
  }
  std::ranges::stable_sort(changes, {},
                           [](const Change& change) { return std::pair(change.at, change.comes); });
  return changes;
}

bool Reservation::spare(const Shape& shape, std::span<const int> hosts) {
  // What an earlier head has then is not to spare.
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!room_.has_free(hosts[i], load_on(shape, i).devices)) return false;
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
