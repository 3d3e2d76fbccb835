// Evictions: who has to give its devices back so that another run fits at once, by least lost work.
//
// What a run loses: what it did since its last checkpoint, and its restart, on all its devices.
//
// Example: two hosts of two devices, all held by runs of one device. On h0 a and b would lose 10
// and 20 minutes, on h1 c and d 1 and 25. A run of one device has c evicted; one of two devices has
// c and d, who lose 26 minutes together.
//
// For each host by itself: who loses least goes until there is room, and whoever need not go after
// all stays. The gang takes the hosts, of one pod if it must be in one, whose runs lose least;
// equals go by the map's order. That is the least where runs hold as many devices as each other;
// elsewhere it may not be, as packing them were a search.
//
// Cost: holders x log of those on a host + hosts x log hosts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "platform/core/sched/holders.h"
#include "platform/core/sched/policy.h"

namespace lockstep {

// Runs of class preemptible, and, if any, normal runs of one host that may pause and stand behind
// this key, once they have written a checkpoint where they are: so each gets on between two pauses.
// Those of this project with a higher priority stand ahead, whatever their key.
struct Victims {
  std::optional<std::int64_t> pausing_behind{};
  std::string_view project{};
  int priority = 0;
};
inline constexpr Victims kPreemptible{};
inline constexpr Victims kPreemptibleAndSmall{std::numeric_limits<std::int64_t>::min()};

// In the order of their hosts; empty if there is no such way, or nobody has to go.
std::vector<RunId> evictions_for(const Room& room, const Gang& gang, Holders& holders,
                                 const SchedulingPolicy& policy, const Victims& victims, Time now);

// What a run loses now if it has to leave its devices: by this its end is put off, too.
Duration lost_time(const SchedulingPolicy& policy, const Holder& holder, Time now);

}  // namespace lockstep
