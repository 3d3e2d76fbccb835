#include "platform/core/sched/pass.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/format.h"
#include "map/query.h"

namespace lockstep {
namespace {

struct Site {
  std::string_view host;
  std::vector<bool> busy;  // by device index
  int free = 0;
};

using Sites = std::vector<Site*>;  // in the map's order

// The map's devices with a mark on each that is taken.
class Floor {
 public:
  Floor(const Floor&) = delete;  // it points into itself
  Floor& operator=(const Floor&) = delete;
  explicit Floor(const Map& map) {
    std::size_t count = 0;
    for (const Pod& pod : map.pods) count += hosts(pod).size();
    sites_.reserve(count);  // pointers into it stay valid
    for (const Pod& pod : map.pods) add(pod);
  }

  void take(std::span<const Slice> slices) { mark(slices, true); }
  void release(std::span<const Slice> slices) { mark(slices, false); }
  void take_all(std::span<const Holding> held) {
    for (const Holding& holding : held) take(holding.slices);
  }

  // Where the gang would go now; empty if it has to wait.
  std::vector<Slice> place(const Want& want) const;
  // How many hosts have what one of its nodes needs free; of the pod that has most of them, when
  // the gang must stay in one.
  int fitting_hosts(const Want& want) const;
  bool fits_when_empty(const Want& want) const;
  // It must stay in one of several pods.
  bool must_choose_a_pod(const Want& want) const {
    return want.nodes > 1 && pods_.size() > 1 && stays_in_one_pod(want);
  }
  int most_devices() const {
    std::size_t most = 0;
    for (const Site& site : sites_) most = std::max(most, site.busy.size());
    return static_cast<int>(most);
  }

 private:
  void add(const Pod& pod) {
    Sites& in_pod = pods_.emplace_back();
    for (const Host* host : hosts(pod)) {
      const auto count = device_count(*host);
      sites_.push_back({host->id, std::vector<bool>(count, false), static_cast<int>(count)});
      by_host_.emplace(host->id, &sites_.back());
      in_pod.push_back(&sites_.back());
    }
  }

  void mark(std::span<const Slice> slices, bool busy) {
    for (const Slice& slice : slices) {
      const auto found = by_host_.find(slice.host);
      if (found == by_host_.end()) continue;
      Site& site = *found->second;
      for (int device : slice.devices) {
        const auto i = static_cast<std::size_t>(device);
        if (i >= site.busy.size() || site.busy[i] == busy) continue;
        site.busy[i] = busy;
        site.free += busy ? -1 : 1;
      }
    }
  }

  // Whether some pod could take the gang if it were empty; if not, it may span pods.
  bool stays_in_one_pod(const Want& want) const {
    return std::ranges::any_of(pods_, [&](const Sites& pod) {
      return std::ranges::count_if(pod, [&](const Site* site) {
               return static_cast<int>(site->busy.size()) >= want.devices;
             }) >= want.nodes;
    });
  }

  std::vector<Site> sites_;
  std::vector<Sites> pods_;
  std::map<std::string_view, Site*> by_host_;
};

Sites with_room(const Sites& sites, int devices) {
  Sites fitting;
  std::ranges::copy_if(sites, std::back_inserter(fitting),
                       [&](const Site* site) { return site->free >= devices; });
  return fitting;
}

// The fullest that still have room, in the map's order.
Sites tightest(Sites fitting, int nodes) {
  const auto cut = fitting.begin() + nodes;
  std::ranges::stable_sort(fitting, {}, [](const Site* site) { return site->free; });
  fitting.erase(cut, fitting.end());
  std::ranges::sort(fitting);  // sites lie in one array, in the map's order
  return fitting;
}

Slice first_free(const Site& site, int devices) {
  Slice slice{std::string(site.host), {}};
  for (int i = 0; std::ssize(slice.devices) < devices; ++i)
    if (!site.busy[static_cast<std::size_t>(i)]) slice.devices.push_back(i);
  return slice;
}

std::vector<Slice> slices_of(const Sites& chosen, int devices) {
  std::vector<Slice> slices;
  for (const Site* site : chosen) slices.push_back(first_free(*site, devices));
  return slices;
}

std::vector<Slice> Floor::place(const Want& want) const {
  Sites best, all;
  std::vector<Sites> rooms;
  for (const Sites& pod : pods_) rooms.push_back(with_room(pod, want.devices));
  if (stays_in_one_pod(want)) {
    for (const Sites& room : rooms)
      if (std::ssize(room) >= want.nodes && (best.empty() || room.size() < best.size()))
        best = room;
    return best.empty() ? std::vector<Slice>{}
                        : slices_of(tightest(best, want.nodes), want.devices);
  }
  // Larger than any pod: over as few pods as can be.
  std::ranges::stable_sort(rooms, std::greater<>{}, [](const Sites& room) { return room.size(); });
  for (const Sites& room : rooms) {
    const auto missing = static_cast<std::size_t>(want.nodes) - all.size();
    const Sites part = tightest(room, static_cast<int>(std::min(missing, room.size())));
    all.insert(all.end(), part.begin(), part.end());
  }
  if (std::ssize(all) < want.nodes) return {};
  std::ranges::sort(all);
  return slices_of(all, want.devices);
}

int Floor::fitting_hosts(const Want& want) const {
  std::vector<int> counts;
  for (const Sites& pod : pods_)
    counts.push_back(static_cast<int>(with_room(pod, want.devices).size()));
  if (counts.empty()) return 0;
  return stays_in_one_pod(want) ? std::ranges::max(counts)
                                : std::accumulate(counts.begin(), counts.end(), 0);
}

bool Floor::fits_when_empty(const Want& want) const {
  return std::ranges::count_if(sites_, [&](const Site& site) {
           return static_cast<int>(site.busy.size()) >= want.devices;
         }) >= want.nodes;
}

std::string count(int n, std::string_view thing) {
  return format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// The last of the holders, oldest first, without which the head would fit.
std::optional<RunId> blocker_of(const Map& map, const Want& head,
                                std::span<const Holding> holders) {
  Floor floor(map);
  floor.take_all(holders);
  for (const Holding& holding : holders) {
    floor.release(holding.slices);
    if (!floor.place(head).empty()) return holding.run;
  }
  return std::nullopt;
}

std::string head_reason(const Floor& floor, const Want& head, const std::optional<RunId>& blocker) {
  const int have = floor.fitting_hosts(head);
  return format("waits for {}: needs {} with {} free {}{}, {} {} them",
                blocker ? text(*blocker) : "free devices", count(head.nodes, "host"), head.devices,
                head.devices == 1 ? "device" : "devices",
                floor.must_choose_a_pod(head) ? " in one pod" : "", have,
                have == 1 ? "has" : "have");
}

// As small numbers are said.
std::string in_words(int n) {
  constexpr std::string_view kWords[] = {"two", "three", "four"};
  return n >= 2 && n <= 4 ? std::string(kWords[n - 2]) : format("{}", n);
}

Error does_not_fit(const Map& map, const Want& want, int most_devices) {
  const int host_count = static_cast<int>(hosts(map).size());
  if (want.nodes > 1 && host_count == 1)
    return {Code::invalid,
            format("the map has 1 host; start the daemon with `lockstep serve --hosts {}x{}` to "
                   "present this machine as {}",
                   want.nodes, want.devices, in_words(want.nodes))};
  return {
      Code::invalid,
      format("needs {} with {} each, but the map has {} with {} in all, at most {} on one; ask "
             "for less, or see `lockstep map`",
             count(want.nodes, "host"), count(want.devices, "device"), count(host_count, "host"),
             count(static_cast<int>(device_count(map)), "device"), most_devices)};
}

}  // namespace

Result<void> check_fits(const Map& map, const Want& want) {
  const Floor floor(map);
  if (floor.fits_when_empty(want)) return {};
  return does_not_fit(map, want, floor.most_devices());
}

Plan pass(const Map& map, std::span<const Want> queue, std::span<const Holding> held) {
  Plan plan;
  const Floor empty(map);
  Floor floor(map);
  floor.take_all(held);
  std::vector<Holding> holders(held.begin(), held.end());
  std::optional<RunId> head;  // the first that has to wait; nobody passes it
  for (const Want& want : queue) {
    if (!empty.fits_when_empty(want)) {
      auto reason = does_not_fit(map, want, empty.most_devices()).message;
      plan.waiting.push_back({want.run, std::nullopt, std::move(reason)});
      continue;
    }
    if (head) {
      plan.waiting.push_back({want.run, head, format("waits behind {} in the queue", text(*head))});
      continue;
    }
    auto slices = floor.place(want);
    if (slices.empty()) {
      const auto blocker = blocker_of(map, want, holders);
      plan.waiting.push_back({want.run, blocker, head_reason(floor, want, blocker)});
      head = want.run;
      continue;
    }
    floor.take(slices);
    holders.push_back({want.run, slices});
    plan.placements.push_back({want.run, std::move(slices)});
  }
  return plan;
}

}  // namespace lockstep
