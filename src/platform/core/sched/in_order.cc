#include "platform/core/sched/in_order.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "platform/core/sched/lane.h"
#include "platform/core/sched/place.h"

namespace lockstep {
namespace {

// A cluster on which time goes on only as far as the next run needs it.
class Ahead {
 public:
  Ahead(const Room& room, Holders& holders, Time now)
      : room_(room), ends_(holders.by_end()), now_(now) {}

  // Places the run at the first moment from here on at which it fits, for as long as it may run.
  Time start(const Gang& gang, Duration limit, bool evicts, Fit fit) {
    if (evicts && !fits(gang)) evict();
    while (!fits(gang)) go_on();
    const auto hosts = gang.shape.needs == Needs{}
                           ? choose_hosts(room_, gang, fit)
                           : choose_hosts(seen_by(gang.shape.needs, room_), gang, fit);
    for (std::size_t i = 0; i < hosts.size(); ++i) room_.take(hosts[i], load_on(gang.shape, i));
    placed_.push({now_ + limit, places_.size()});
    places_.push_back({gang.shape, hosts});
    return now_;
  }

 private:
  using End = std::pair<Time, std::size_t>;
  struct Place {
    Shape shape;
    std::vector<int> hosts;
  };

  bool fits(const Gang& gang) const {
    return gang.shape.needs == Needs{} ? room_.fits(gang)
                                       : seen_by(gang.shape.needs, room_).fits(gang);
  }

  void release(const Holder& holder) {
    for (const Taken& taken : holder.taken) room_.give(taken.host, load_of(taken));
  }

  void evict() {
    if (std::exchange(evicted_, true)) return;
    for (std::size_t i = next_; i < ends_.size(); ++i)
      if (is_evictable(*ends_[i].holder)) release(*ends_[i].holder);
  }

  // To the next end: a run fits when all have ended.
  void go_on() {
    LS_CHECK(next_ < ends_.size() || !placed_.empty());
    const bool of_placed =
        next_ == ends_.size() || (!placed_.empty() && placed_.top().first < ends_[next_].time);
    if (!of_placed) {
      const auto& [time, holder, number] = ends_[next_++];
      now_ = std::max(now_, time);
      if (!evicted_ || !is_evictable(*holder)) release(*holder);
      return;
    }
    const auto [time, place] = placed_.top();
    placed_.pop();
    now_ = std::max(now_, time);
    const auto& [shape, hosts] = places_[place];
    for (std::size_t i = 0; i < hosts.size(); ++i) room_.give(hosts[i], load_on(shape, i));
  }

  Room room_;
  std::span<const Holders::End> ends_;  // of those that hold devices now
  std::size_t next_ = 0;                // of them to end
  std::vector<Place> places_;
  std::priority_queue<End, std::vector<End>, std::greater<>> placed_;
  bool evicted_ = false;
  Time now_;
};

}  // namespace

std::vector<std::optional<Time>> starts_in_order(const SchedulingPolicy& policy, const Floor& floor,
                                                 const Accounts& accounts, WaitingList& waiting,
                                                 Holders& holders, Time now) {
  Ahead ahead(floor.room(), holders, now);
  std::vector<std::optional<Time>> starts;
  const auto has_room = [&](const WaitingList::Entry& entry) {
    return lane_has_room(policy, floor.room().table(), holders, waiting.gang(entry).shape);
  };
  const auto place = [&](const WaitingList::Entry& entry) {
    const Gang& gang = waiting.gang(entry);
    auto& start = starts.emplace_back();
    if (!can_be_placed(gang.reach)) return true;
    if (!accounts.allows(entry.account, device_count(gang.shape))) return true;
    start = ahead.start(gang, entry.limit, entry.rank != WaitingList::kPreemptible, policy.fit);
    return true;
  };
  in_turn(waiting.entries(), has_room, place);
  return starts;
}

}  // namespace lockstep
