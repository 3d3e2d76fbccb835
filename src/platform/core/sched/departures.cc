#include "platform/core/sched/departures.h"

#include <optional>

#include "platform/core/sched/place.h"
#include "platform/core/sched/reservation.h"

namespace lockstep {
namespace {

// The room there will be when those have left who were asked to.
Room once_left(const Floor& floor, Holders& holders) {
  Room room = floor.room();
  if (holders.leaving() == 0) return room;
  for (const auto& [end, holder, _] : holders.by_end())
    if (holder->leaving)
      for (const Taken& taken : holder->taken) room.give(taken.host, load_of(taken));
  return room;
}

// Whether it has its place when the last of those has gone who were asked to leave, and those who
// are to end before. By this its place is kept, so whoever passes it changes nothing of it.
bool fits_once_left(const Gang& gang, const Floor& floor, Holders& holders) {
  const auto last = holders.last_leaving();
  return last &&
         Reservation(floor.room(), gang, Duration(0), holders, std::nullopt).start() <= *last;
}

bool needs_whole_hosts(const Shape& shape, const HostTable& table) {
  return shape.nodes > 1 || shape.devices == table.most_devices;
}

// Whom the run may have paused, if anybody.
std::optional<Victims> pausing_for(const Claim& claim, const HostTable& table, Pausing pausing) {
  if (claim.in_lane && pausing != Pausing::nobody) return kPreemptibleAndSmall;
  if (pausing == Pausing::debug_and_large && needs_whole_hosts(claim.gang.shape, table))
    return Victims{
        .pausing_behind = claim.key, .project = claim.project, .priority = claim.priority};
  return std::nullopt;
}

}  // namespace

Departures departures_for(const Claim& claim, const Floor& floor, Holders& holders,
                          const SchedulingPolicy& policy, Time now) {
  const bool anybody = holders.count_of(RunClass::preemptible) > 0 ||
                       (policy.moves && holders.movable() > 0) ||
                       (policy.pausing != Pausing::nobody && holders.pausable() > 0);
  if (!anybody) return {};
  if (fits_once_left(claim.gang, floor, holders)) return {};
  const Room room = once_left(floor, holders);
  const auto pausing = pausing_for(claim, room.table(), policy.pausing);
  Departures found;
  const auto evict = [&](const Victims& victims) {
    found.evictions = evictions_for(room, claim.gang, holders, policy, victims, now);
    return !found.empty();
  };
  if (holders.count_of(RunClass::preemptible) > 0 && evict(kPreemptible)) return found;
  if (claim.in_lane && pausing && evict(*pausing)) return found;
  if (policy.moves) found.moves = relocations_for(room, floor.room(), claim.gang, holders, now);
  if (found.empty() && !claim.in_lane && pausing) evict(*pausing);
  return found;
}

std::vector<Relocation> departures_from_drained(const Floor& floor, Holders& holders,
                                                const SchedulingPolicy& policy, Time now) {
  std::vector<Relocation> moves;
  if (floor.drained().empty()) return moves;
  Room room = floor.room();
  for (const auto& [end, holder, _] : holders.by_end()) {
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
