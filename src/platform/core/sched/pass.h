// The pass: which waiting runs start now and where, and for each of the others why it waits. A pure
// function over the map and what is held; integers and the map's order decide, nothing else.
//
// First come, first served: the queue's head is placed if it fits; once one does not fit, nobody
// behind it is placed, so that no run waits for ever behind smaller ones.
//
// A gang of n nodes with d devices each takes n distinct hosts with d free devices, inside one pod
// unless no pod is large enough even when empty. Among the pods that can take it, the one which has
// the fewest hosts to spare; in it, the hosts with the fewest free devices: large holes are kept
// for those who need them. Ties go by the map's order, and a gang's nodes stand in the map's order,
// so that neighbouring ranks are close.
//
// Cost: hosts x log hosts for each run placed, and as much for each holder when the head waits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"
#include "platform/core/model/ids.h"

namespace lockstep {

struct Want {
  RunId run;
  int nodes = 1;
  int devices = 1;  // on each
};

struct Slice {
  std::string host;
  std::vector<int> devices;  // indices within the host, ascending
  bool operator==(const Slice&) const = default;
};

// Devices that are not free, and whose they are.
struct Holding {
  RunId run;
  std::vector<Slice> slices;
};

struct Placement {
  RunId run;
  std::vector<Slice> slices;  // one a node, in the map's order
};

struct WaitingRun {
  RunId run;
  std::optional<RunId> blocker;  // the run that must end or start first; none: the map is too small
  std::string reason;            // one line for people
};

struct Plan {
  std::vector<Placement> placements;
  std::vector<WaitingRun> waiting;
};

// queue: in the order in which runs shall start. held: oldest first, which is the order in which
// holders are expected to end. Holdings on hosts that the map no longer has are ignored.
Plan pass(const Map& map, std::span<const Want> queue, std::span<const Holding> held);

// Whether the run could start if nothing else ran; the error says what the map holds.
Result<void> check_fits(const Map& map, const Want& want);

}  // namespace lockstep
