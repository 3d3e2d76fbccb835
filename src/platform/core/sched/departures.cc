#include "platform/core/sched/departures.h"

#include <optional>

#include "platform/core/sched/place.h"

namespace lockstep {
namespace {

// The room there will be when those have left who were asked to.
Room once_left(const Floor& floor, Holders& holders) {
  Room room = floor.room();
  if (holders.leaving() == 0) return room;
  for (const auto& [end, holder] : holders.by_end())
    if (holder->leaving)
      for (const Taken& taken : holder->taken) room.give(taken.host, load_of(taken));
  return room;
}

bool needs_whole_hosts(const Shape& shape, const HostTable& table) {
  return shape.nodes > 1 || shape.devices == table.most_devices;
}

// Whom the run may have paused, if anybody.
std::optional<Victims> pausing_for(const Claim& claim, const HostTable& table, Pausing pausing) {
  if (claim.in_lane && pausing != Pausing::nobody) return kPreemptibleAndSmall;
  if (pausing == Pausing::debug_and_large && needs_whole_hosts(claim.gang.shape, table))
    return Victims{.pausing_behind = claim.key};
  return std::nullopt;
}

}  // namespace

Departures departures_for(const Claim& claim, const Floor& floor, Holders& holders,
                          const SchedulingPolicy& policy, Time now) {
  const Room room = once_left(floor, holders);
  if (holders.leaving() > 0 && seen_by(claim.gang.shape.needs, room).fits(claim.gang)) return {};
  const auto pausing = pausing_for(claim, room.table(), policy.pausing);
  Departures found;
  const auto evict = [&](const Victims& victims) {
    found.evictions = evictions_for(room, claim.gang, holders, policy, victims, now);
    return !found.empty();
  };
  if (holders.count_of(RunClass::preemptible) > 0 && evict(kPreemptible)) return found;
  if (claim.in_lane && pausing && evict(*pausing)) return found;
  if (policy.moves) found.moves = relocations_for(room, claim.gang, holders, now);
  if (found.empty() && !claim.in_lane && pausing) evict(*pausing);
  return found;
}

std::vector<Relocation> departures_from_drained(const Floor& floor, Holders& holders,
                                                const SchedulingPolicy& policy, Time now) {
  std::vector<Relocation> moves;
  if (floor.drained().empty()) return moves;
  Room room = floor.room();
  for (const auto& [end, holder] : holders.by_end()) {
    if (!is_movable(*holder, now)) continue;
    if (floor.state(holder->taken.front().host) != HostState::drained) continue;
    const Gang one{shape_of(*holder), Reach::pod};
    const auto hosts = choose_hosts(seen_by(one.shape.needs, room), one, policy.fit);
    if (hosts.empty()) continue;
    room.take(hosts.front(), load_on(one.shape, 0));
    moves.push_back({holder->run, hosts.front()});
  }
  return moves;
}

}  // namespace lockstep
