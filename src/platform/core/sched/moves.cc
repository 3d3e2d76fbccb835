#include "platform/core/sched/moves.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "platform/core/sched/place.h"

namespace lockstep {
namespace {

int devices_of(const Holder* holder) {
  return static_cast<int>(holder->taken.front().devices.size());
}

// By host: the runs that may be moved off it, those with the fewest devices first.
std::vector<std::vector<const Holder*>> movable_runs(const HostTable& table, Holders& holders,
                                                     Time now) {
  std::vector<std::vector<const Holder*>> by_host(table.names.size());
  for (const auto& [end, holder, _] : holders.by_end()) {
    if (!is_movable(*holder, now)) continue;
    const std::size_t host = as_index(holder->taken.front().host);
    if (devices_of(holder) < table.capacity[host]) by_host[host].push_back(holder);
  }
  for (auto& runs : by_host)
    std::ranges::sort(runs, {},
                      [](const Holder* run) { return std::pair(devices_of(run), run->run); });
  return by_host;
}

// What it takes to make room on one host.
struct Clearing {
  int host = 0;
  std::vector<const Holder*> runs;
  int devices = 0;  // that move
};

// Empty if so many devices cannot be made free there.
std::optional<Clearing> clear(const Room& room, int host, int devices,
                              const std::vector<const Holder*>& movable) {
  if (!room.is_seen(host)) return std::nullopt;
  Clearing clearing{host, {}, 0};
  for (const Holder* run : movable) {
    if (room.free(host) + clearing.devices >= devices) break;
    clearing.runs.push_back(run);
    clearing.devices += devices_of(run);
  }
  if (room.free(host) + clearing.devices < devices) return std::nullopt;
  return clearing;
}

class Search {
 public:
  Search(const Room& room, const Room& free_now, const Gang& head, Holders& holders, Time now)
      : room_(room),
        free_now_(free_now),
        heads_(seen_by(fixed_part(head.shape.needs), room)),
        head_(head),
        movable_(movable_runs(room.table(), holders, now)) {}

  std::vector<Relocation> best() {
    for (int pod = 0; pod < room_.table().pod_count(); ++pod) try_pod(pod);
    return best_;
  }

 private:
  void try_pod(int pod);
  std::vector<Clearing> clearings(int pod) const;
  std::vector<Relocation> relocate(const std::vector<Clearing>& clearings) const;

  const Room& room_;
  const Room& free_now_;
  const Room heads_;  // the hosts that would do for it
  const Gang& head_;
  const std::vector<std::vector<const Holder*>> movable_;
  std::vector<Relocation> best_;
  std::int64_t fewest_ = 0;  // devices that best_ moves
};

void Search::try_pod(int pod) {
  const auto cleared = clearings(pod);
  if (cleared.empty()) return;
  std::int64_t moved = 0;
  for (const Clearing& clearing : cleared) moved += clearing.devices;
  if (moved > device_count(head_.shape) || (!best_.empty() && moved >= fewest_)) return;
  auto relocations = relocate(cleared);
  if (relocations.empty()) return;
  best_ = std::move(relocations);
  fewest_ = moved;
}

// The pod's hosts for the head, those first for which least has to move, its remainder's last;
// empty if there are not enough.
std::vector<Clearing> Search::clearings(int pod) const {
  std::vector<Clearing> all;
  const auto [first, end] = room_.table().pods[as_index(pod)];
  for (int host = first; host < end; ++host)
    if (auto clearing = clear(heads_, host, head_.shape.devices, movable_[as_index(host)]))
      all.push_back(std::move(*clearing));
  const auto effort = [](const Clearing& clearing) {
    return std::tuple(clearing.devices, clearing.host);
  };
  std::ranges::sort(all, {}, effort);
  if (std::ssize(all) < head_.shape.nodes) return {};
  all.resize(as_index(head_.shape.nodes));
  if (head_.shape.remainder == 0) return all;
  std::optional<Clearing> rest;
  for (int host = first; host < end; ++host) {
    if (std::ranges::count(all, host, &Clearing::host) > 0) continue;
    auto clearing = clear(heads_, host, head_.shape.remainder, movable_[as_index(host)]);
    if (clearing && (!rest || effort(*clearing) < effort(*rest))) rest = std::move(clearing);
  }
  if (!rest) return {};
  all.push_back(std::move(*rest));
  return all;
}

// Places for all runs that move, the largest first; empty if one of them finds none.
std::vector<Relocation> Search::relocate(const std::vector<Clearing>& clearings) const {
  Room room = free_now_;
  Room after = room_;
  std::vector<const Holder*> runs;
  for (const Clearing& clearing : clearings) {
    room.close(clearing.host);  // nobody goes to the head's hosts
    runs.insert(runs.end(), clearing.runs.begin(), clearing.runs.end());
  }
  std::ranges::stable_sort(runs, std::greater<>{}, devices_of);
  std::vector<Relocation> relocations;
  for (const Holder* run : runs) {
    const Gang one{shape_of(*run), Reach::pod};
    const auto hosts = choose_hosts(seen_by(one.shape.needs, room), one, Fit::best);
    if (hosts.empty()) return {};
    room.take(hosts.front(), load_on(one.shape, 0));
    after.take(hosts.front(), load_on(one.shape, 0));
    after.give(run->taken.front().host, load_of(run->taken.front()));
    relocations.push_back({run->run, hosts.front()});
  }
  // Who goes may leave too few cores or too little memory.
  return seen_by(head_.shape.needs, after).fits(head_) ? relocations : std::vector<Relocation>{};
}

}  // namespace

bool is_movable(const Holder& holder, Time now) {
  const bool has_begun = holder.saved || holder.started != now;
  return holder.moves_left > 0 && holder.taken.size() == 1 && has_begun && !holder.leaving &&
         holder.run_class != RunClass::preemptible;
}

Shape shape_of(const Holder& holder) {
  return {1, static_cast<int>(holder.taken.front().devices.size()), 0, holder.needs};
}

std::vector<Relocation> relocations_for(const Room& room, const Room& free_now, const Gang& head,
                                        Holders& holders, Time now) {
  if (head.reach != Reach::pod || room.free_in_all() < device_count(head.shape)) return {};
  return Search(room, free_now, head, holders, now).best();
}

}  // namespace lockstep
