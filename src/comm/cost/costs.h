// Costs: the input for the choice of algorithms. It contains the cost to send and to reduce, by
// level: the constants of the alpha-beta-gamma model (predict.h), measured by `lockstep probe`. It
// also contains the fastest plans for the calls that `lockstep tune` has measured. The map stores
// them. Without measurements there are defaults and no such calls.
//
// All ranks of a group must have the same Costs. Otherwise they would choose different plans and
// wait for each other forever. So a group takes those of its rank 0 when it connects
// (comm/collective).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"
#include "map/map.h"

namespace lockstep::comm {

// A single message of b bytes takes latency + b * per_byte from one rank's memory to the other's.
struct LevelCost {
  double latency = 0;  // alpha: seconds, including the work of both ends
  // The part of the latency, in seconds, in which each end can do nothing else. Two messages that
  // are sent one after the other arrive with this interval. A rank with messages to and from
  // several others at the same time is busy for this time with each.
  double overhead = 0;
  double per_byte = 0;  // beta: seconds a byte
  bool operator==(const LevelCost&) const = default;
};

struct Costs {
  // Between ranks that share memory, and between hosts, whose ranks share their host's wire.
  LevelCost within_host{1e-6, 0.3e-6, 1 / 10e9};
  LevelCost between_hosts{25e-6, 7e-6, 1 / 1.18e9};  // TCP; 10 Gbit/s, less headers
  double reduction = 1 / 8e9;                        // gamma: seconds a byte reduced
  std::vector<map::TunedRange> tuned = {};           // comm/choice/tuned.h understands the names
  bool operator==(const Costs&) const = default;
};

// The measured costs of the map. Else, between hosts, those of its declared links where given; else
// the defaults.
Costs costs_of(const map::ClusterMap& map);

// The costs without measurements: the defaults, between hosts at the speed of the interface if
// known, less headers.
Costs assumed_costs(std::optional<Bandwidth> link_speed);

// Encodes the costs as one line for an environment variable or a rendezvous: seven times, and for
// each tuned range "; OPERATION HOSTS RANKS BYTES PLAN". Parsing rejects invalid times: negative,
// infinite, longer than a minute.
std::string encode_costs(const Costs& costs);
Result<Costs> parse_costs(std::string_view costs_text);
// LOCKSTEP_COSTS, which agents set from the map; nullopt where it is not set.
inline constexpr std::string_view kCostsVariable = "LOCKSTEP_COSTS";
Result<std::optional<Costs>> costs_from_environment(const Environment& environment);

}  // namespace lockstep::comm
