#include "platform/core/sched/reservation.h"

#include <algorithm>
#include <utility>

#include "platform/core/sched/place.h"

namespace lockstep {

namespace {

// Holders lie anywhere in memory: while some are released, those behind them are fetched.
void fetch_holders_ahead(std::span<const Holders::End> ends, std::size_t i) {
  constexpr std::size_t kNear = 4, kFar = 8;
  if (i + kFar >= ends.size()) return;
  __builtin_prefetch(&ends[i + kFar].holder->taken);
  const TakenList& taken = ends[i + kNear].holder->taken;
  if (taken.size() > 1) __builtin_prefetch(taken.data());
}

}  // namespace

// An earlier head comes, or goes.
struct Reservation::Change {
  Time at{};
  bool comes = false;
  std::size_t head = 0;  // of those earlier
};

// What is still to come, in the order of time.
struct Reservation::Ahead {
  std::span<const Holders::End> ends;
  std::span<const Reservation> earlier;
  std::vector<Change> changes = changes_by(earlier);
  // Where those earlier are, once they have come.
  std::vector<std::vector<int>> places = std::vector<std::vector<int>>(earlier.size());
  std::size_t end = 0, change = 0;
  bool evicted = false;  // whoever can be evicted has gone

  Time next() const {
    const Time holder = end < ends.size() ? ends[end].time : Time::max();
    return change < changes.size() ? std::min(holder, changes[change].at) : holder;
  }
};

Reservation::Reservation(const Room& room, const Gang& head, Duration limit, Holders& holders,
                         std::optional<Time> evicts, std::span<const Reservation> earlier)
    : room_(room), head_(head), limit_(limit) {
  room_.narrow(head.shape.needs);
  Ahead ahead{.ends = holders.by_end(), .earlier = earlier};
  if (evicts && holders.count_of(RunClass::preemptible) > 0) {
    const auto last = holders.last_leaving();
    while (last && !head_fits() && ahead.next() <= *last) go_on(ahead);
    if (!head_fits()) evict(ahead, last.value_or(*evicts));
  }
  while (!head_fits()) go_on(ahead);
}

void Reservation::evict(Ahead& ahead, Time when) {
  start_ = when;
  blocker_.reset();
  for (std::size_t i = ahead.end; i < ahead.ends.size(); ++i)
    if (is_evictable(*ahead.ends[i].holder)) release(*ahead.ends[i].holder);
  ahead.evicted = true;
}

// All of the next moment: who comes then comes after who goes.
void Reservation::go_on(Ahead& ahead) {
  auto& [ends, earlier, changes, places, end, next, evicted] = ahead;
  LS_CHECK(end < ends.size() || next < changes.size());  // it fits when all are gone
  start_ = ahead.next();
  blocker_.reset();
  for (; end < ends.size() && ends[end].time == start_; ++end) {
    fetch_holders_ahead(ends, end);
    const Holder& holder = *ends[end].holder;
    if (!evicted || !is_evictable(holder)) release(holder);
  }
  for (; next < changes.size() && changes[next].at <= start_; ++next) {
    const Gang& gang = earlier[changes[next].head].head_;
    auto& hosts = places[changes[next].head];
    if (changes[next].comes)
      hosts = choose_hosts(seen_by(gang.shape.needs, room_), gang, Fit::best);
    for (std::size_t i = 0; i < hosts.size(); ++i)
      change(hosts[i], load_on(gang.shape, i), changes[next].comes ? -1 : 1);
  }
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
  const bool fitted = head_fits();
  for (const Taken& taken : holder.taken) change(taken.host, load_of(taken), 1);
  if (!fitted && head_fits()) blocker_ = holder.run;
}

}  // namespace lockstep
