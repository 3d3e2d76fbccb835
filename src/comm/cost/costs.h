// Costs: what algorithms are chosen by. What it costs to send and to reduce, by level: the
// constants of the alpha-beta-gamma model (predict.h), measured by `lockstep probe`; and of calls
// that `lockstep tune` has measured, which plan was the fastest. Kept in the map; defaults, and no
// such calls, where nobody has measured.
//
// All ranks of a group must have the same Costs, or they would choose differently and wait for each
// other for ever. So a group takes those of its rank 0, when it meets (comm/collective).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "base/units.h"
#include "map/map.h"

namespace lockstep {

// A lone message of b bytes takes latency + b * per_byte from one rank's memory to the other's.
struct LevelCost {
  double latency = 0;  // alpha: seconds, both ends' work for the message included
  // Of the latency, the seconds for which each end can do nothing else. Two messages that are sent
  // one after the other come that much apart, and who has messages to and from several others at
  // the same time is busy for so long with each.
  double overhead = 0;
  double per_byte = 0;  // beta: seconds a byte
  bool operator==(const LevelCost&) const = default;
};

struct Costs {
  // Between ranks that share memory, and between hosts, whose ranks share their host's wire.
  LevelCost within_host{1e-6, 0.3e-6, 1 / 10e9};
  LevelCost between_hosts{25e-6, 7e-6, 1 / 1.18e9};  // TCP; 10 Gbit/s, less what headers take
  double reduction = 1 / 8e9;                        // gamma: seconds a byte reduced
  std::vector<TunedRange> tuned = {};                // comm/choice/tuned.h understands the names
  bool operator==(const Costs&) const = default;
};

// As its map says: measured; else between hosts as its declared links say, for what they say; else
// the defaults.
Costs costs_of(const Map& map);

// Where nobody has measured: the defaults, between hosts at the speed of the interface if that is
// known, less what headers take.
Costs assumed_costs(std::optional<Bandwidth> link_speed);

// As one line for an environment variable or a meeting place, and back: seven times, and for each
// range that was tuned "; OPERATION HOSTS RANKS BYTES PLAN". Reading refuses what is no time:
// negative, infinite, longer than a minute.
std::string to_words(const Costs& costs);
Result<Costs> costs_from_words(std::string_view words);
// LOCKSTEP_COSTS, which agents set from the map; nothing where it is not set.
inline constexpr std::string_view kCostsVariable = "LOCKSTEP_COSTS";
Result<std::optional<Costs>> costs_in(const Environment& environment);

}  // namespace lockstep
